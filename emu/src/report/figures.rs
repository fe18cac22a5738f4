//! Figures that several formats take out of the counters.

use mmuscope_models::addr::Level;
use mmuscope_models::counters::{Barriers, Counters};
use serde::Serialize;
use serde_json::Value;

/// Stores to user tables at `level`, whatever they did to the entry.
pub fn table_stores(counters: &Counters, level: Level) -> u64 {
    counters.lower_tables.at(level)
}

/// TLB maintenance by operation, those that happened. An Arm name stands for its whole form:
/// `VAE1IS` counts `VALE1IS` too.
pub fn invalidations(counters: &Counters) -> Vec<(&'static str, u64)> {
    let (is, local, x86) = (
        &counters.tlbi_broadcast,
        &counters.tlbi_local,
        &counters.flushes,
    );
    let all = [
        ("VMALLE1IS", is.all),
        ("ASIDE1IS", is.asid),
        ("VAE1IS", is.va),
        ("VAAE1IS", is.vaa),
        ("RVAE1IS", is.range),
        ("VMALLE1", local.all),
        ("ASIDE1", local.asid),
        ("VAE1", local.va),
        ("VAAE1", local.vaa),
        ("RVAE1", local.range),
        ("INVLPG", x86.invlpg),
        ("INVPCID0", x86.invpcid_address),
        ("INVPCID1", x86.invpcid_context),
        ("INVPCID2", x86.invpcid_all),
        ("INVPCID3", x86.invpcid_all_non_global),
        ("CR3", x86.cr3),
        ("CR4", x86.cr4),
        ("other", x86.other),
    ];
    all.into_iter().filter(|it| it.1 != 0).collect()
}

/// Barriers of every kind.
pub fn barriers(counters: &Counters) -> u64 {
    let Barriers {
        dsb_ish,
        dsb_ishst,
        dsb_nsh,
        dsb_other,
        dmb,
        isb,
        fence,
    } = counters.barriers;
    dsb_ish + dsb_ishst + dsb_nsh + dsb_other + dmb + isb + fence
}

/// Every number in `data` under its dotted name, in the order of the structure. The elements of
/// an array over levels are called `l-1`, `l0` .. `l3`.
pub fn flatten(data: &impl Serialize) -> Result<Vec<(String, Value)>, serde_json::Error> {
    let mut out = Vec::new();
    visit("", serde_json::to_value(data)?, &mut out);
    Ok(out)
}

fn visit(name: &str, value: Value, out: &mut Vec<(String, Value)>) {
    let join = |part: &str| match name {
        "" => part.to_owned(),
        _ => format!("{name}.{part}"),
    };
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                visit(&join(&field), value, out);
            }
        }
        Value::Array(elements) if elements.len() == Level::COUNT => {
            for (level, value) in Level::ALL.into_iter().zip(elements) {
                visit(&join(&format!("l{}", level.number())), value, out);
            }
        }
        Value::Array(elements) => {
            for (at, value) in elements.into_iter().enumerate() {
                visit(&join(&at.to_string()), value, out);
            }
        }
        value => out.push((name.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalidations_are_named_by_reach_and_form() {
        let mut counters = Counters::default();
        counters.tlbi_broadcast.asid = 512;
        counters.tlbi_local.va = 3;
        counters.flushes.cr3 = 1;
        assert_eq!(
            invalidations(&counters),
            [("ASIDE1IS", 512), ("VAE1", 3), ("CR3", 1)]
        );
    }

    #[test]
    fn every_barrier_is_counted_once() {
        let mut counters = Counters::default();
        counters.barriers.dsb_ish = 1;
        counters.barriers.isb = 20;
        counters.barriers.fence = 300;
        assert_eq!(barriers(&counters), 321);
    }

    #[test]
    fn flattened_names_say_the_level() {
        let mut counters = Counters::default();
        counters.data.walk_reads = [0, 1, 2, 3, 4];
        let flat = flatten(&counters).unwrap();
        let of = |name: &str| flat.iter().find(|it| it.0 == name).map(|it| it.1.clone());
        assert_eq!(of("data.walk_reads.l-1"), Some(Value::from(0)));
        assert_eq!(of("data.walk_reads.l3"), Some(Value::from(4)));
        assert_eq!(of("loads"), Some(Value::from(0)));
    }
}
