//! `mmuscope tlbi`: an instruction word explained, or made from a mnemonic.

use anyhow::bail;
use mmuscope_models::aarch64::TlbiForm;
use mmuscope_models::addr::{Granule, Level};
use mmuscope_models::explain::{Explanation, tlbi};
use serde::Serialize;

use super::{Exit, facts, output};

const EXAMPLES: &str = "\
Examples:
  mmuscope tlbi 0xd50883a0 0x00077000000ffff0           # vale1is, x0
  mmuscope tlbi vale1is --va 0xffff0000 --asid 7 --level 3
  mmuscope tlbi rvae1is --va 0x7f0000000000 --length 2M --asid 7";

/// Arguments of `tlbi`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// An instruction word such as 0xd5088720, or a mnemonic such as vale1is
    instruction: String,
    /// Operands to explain: Xt, and for TLBIP the second register
    #[arg(value_name = "XT", value_parser = facts::number, num_args = 0..=2)]
    operands: Vec<u64>,
    /// Make an operand for this address (an IPA for stage 2 forms)
    #[arg(long, value_name = "VA", value_parser = facts::number)]
    va: Option<u64>,
    /// .. and, for range forms, this many bytes
    #[arg(long, value_name = "SIZE", value_parser = facts::size)]
    length: Option<u64>,
    /// .. under this ASID
    #[arg(long)]
    asid: Option<u16>,
    /// .. with the level of the leaves as a hint (TTL)
    #[arg(long, alias = "ttl", value_name = "0-3", allow_negative_numbers = true)]
    level: Option<i8>,
    /// The granule of the tables
    #[arg(long, value_name = "4K|16K|64K", value_parser = granule, default_value = "4K")]
    granule: Granule,
    /// TCR_ELx.DS is set: ranges begin in units of 64 KiB
    #[arg(long)]
    lpa2: bool,
    /// The operand register of instructions that are made
    #[arg(long, value_name = "0-30", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=30))]
    register: u8,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn granule(text: &str) -> Result<Granule, String> {
    match text.to_ascii_uppercase().as_str() {
        "4K" => Ok(Granule::K4),
        "16K" => Ok(Granule::K16),
        "64K" => Ok(Granule::K64),
        _ => Err("expected 4K, 16K or 64K".to_owned()),
    }
}

/// One instruction of the answer.
#[derive(Serialize)]
struct Answer {
    word: String,
    assembly: String,
    operands: Vec<String>,
    #[serde(flatten)]
    explanation: Explanation,
}

/// Explains or makes instructions.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let answers =
        if arguments.instruction.starts_with("0x") || arguments.instruction.starts_with("0X") {
            vec![explain_word(arguments)?]
        } else {
            from_mnemonic(arguments)?
        };
    if arguments.json {
        facts::json(&answers)?;
    } else {
        let text: Vec<_> = answers.iter().map(text).collect();
        output::print(text.join("\n").as_bytes())?;
    }
    Ok(Exit::Fine)
}

fn explain_word(arguments: &Arguments) -> anyhow::Result<Answer> {
    let text = &arguments.instruction;
    let word = facts::number32(text).map_err(|it| anyhow::anyhow!("`{text}`: {it}"))?;
    if arguments.va.is_some()
        || arguments.asid.is_some()
        || arguments.length.is_some()
        || arguments.level.is_some()
    {
        bail!(
            "`{text}`: --va, --asid, --length and --level make an operand for a mnemonic: expected the operand's value after the word"
        );
    }
    let Some((form, register)) = TlbiForm::from_instruction(word) else {
        bail!(
            "`{text}` is no TLBI: expected a SYS or SYSP instruction with CRn 8 or 9, such as 0xd5088720"
        );
    };
    let form = form.map_err(|it| anyhow::anyhow!("`{text}`: {it}"))?;
    answer(form, register, &arguments.operands, arguments.lpa2)
}

fn from_mnemonic(arguments: &Arguments) -> anyhow::Result<Vec<Answer>> {
    let form: TlbiForm = arguments.instruction.parse().map_err(|it| {
        anyhow::anyhow!("{it}: expected a mnemonic such as vae1is or rvale1os, or an instruction word such as 0xd5088720")
    })?;
    let register = if form.takes_operand() {
        arguments.register
    } else {
        31
    };
    let asked = arguments.va.is_some()
        || arguments.asid.is_some()
        || arguments.length.is_some()
        || arguments.level.is_some();
    if !asked {
        return Ok(vec![answer(
            form,
            register,
            &arguments.operands,
            arguments.lpa2,
        )?]);
    }
    if !arguments.operands.is_empty() {
        bail!("`{form}`: both an operand and options that make one: expected one of the two");
    }
    let level = match arguments.level {
        None => None,
        Some(number) => Some(
            Level::from_number(number)
                .ok_or_else(|| anyhow::anyhow!("--level: {number} is no level: expected 0 to 3"))?,
        ),
    };
    let request = tlbi::Request {
        address: arguments.va,
        bytes: arguments.length.unwrap_or(0),
        asid: arguments.asid,
        granule: arguments.granule,
        level,
        lpa2: arguments.lpa2,
    };
    tlbi::encode(&form, &request)?
        .into_iter()
        .map(|it| {
            let operands = match (it.form.takes_operand(), it.form.pair) {
                (false, _) => vec![],
                (true, false) => vec![it.operand.0],
                (true, true) => vec![it.operand.0, it.operand.1],
            };
            answer(it.form, register, &operands, arguments.lpa2)
        })
        .collect()
}

fn answer(form: TlbiForm, register: u8, operands: &[u64], lpa2: bool) -> anyhow::Result<Answer> {
    let most = match (form.takes_operand(), form.pair) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    };
    if operands.len() > most {
        bail!("`{form}` takes {most} operands, found {}", operands.len());
    }
    let Some(encoding) = form.encoding() else {
        bail!("`{form}` has no encoding");
    };
    let word = tlbi::instruction(encoding, form.pair, register);
    let operand = operands
        .first()
        .map(|&low| (low, operands.get(1).copied().unwrap_or(0)));
    Ok(Answer {
        word: format!("{word:#010x}"),
        assembly: tlbi::assembly(&form, register),
        operands: operands.iter().map(|it| format!("{it:#018x}")).collect(),
        explanation: tlbi::explain(&form, operand, lpa2),
    })
}

fn text(answer: &Answer) -> String {
    let mut text = format!("{}  {}\n", answer.word, answer.assembly);
    for (name, value) in ["Xt", "Xt+1"].iter().zip(&answer.operands) {
        text.push_str(&format!("  {name} = {value}\n"));
    }
    text.push_str(&format!("  {}\n", answer.explanation.summary));
    facts::fields(&mut text, &answer.explanation.fields, 2);
    text
}
