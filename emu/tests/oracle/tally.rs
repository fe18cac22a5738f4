//! Counts of agreements and differences, and the report of a run.

use std::collections::BTreeMap;
use std::fmt;

/// How many unexplained differences are printed in full, each of another kind.
const PRINTED: usize = 12;

/// How an answer relates to what was expected.
pub enum Verdict {
    /// Both say the same.
    Agrees,
    /// They differ as this rule says the emulator does.
    Deviates(&'static str),
    /// They differ in this way, and nothing explains it.
    Differs(String),
}

/// What a run found.
#[derive(Default)]
pub struct Tally {
    walks: u64,
    agreements: u64,
    deviations: BTreeMap<&'static str, u64>,
    unexplained: u64,
    examples: BTreeMap<String, (u64, String)>,
    features: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Counts a walk. `example` describes it; one is kept of each kind of difference.
    pub fn judge(&mut self, verdict: Verdict, example: impl FnOnce() -> String) {
        self.walks += 1;
        match verdict {
            Verdict::Agrees => self.agreements += 1,
            Verdict::Deviates(rule) => *self.deviations.entry(rule).or_default() += 1,
            Verdict::Differs(kind) => {
                self.unexplained += 1;
                let (count, _) = self.examples.entry(kind).or_insert_with(|| (0, example()));
                *count += 1;
            }
        }
    }

    /// A walk used this feature.
    pub fn cover(&mut self, feature: &'static str) {
        *self.features.entry(feature).or_default() += 1;
    }

    /// How many walks were compared.
    pub fn walks(&self) -> u64 {
        self.walks
    }

    /// Fails unless every difference is explained and each of `features` was covered.
    pub fn check(&self, features: &[&str]) {
        let mut examples = String::new();
        for (kind, (count, example)) in self.examples.iter().take(PRINTED) {
            examples += &format!("{count} times: {kind}, such as\n{example}\n");
        }
        assert!(
            self.unexplained == 0,
            "{} unexplained differences\n{examples}",
            self.unexplained
        );
        for feature in features {
            assert!(
                self.features.contains_key(feature),
                "no walk covered: {feature}"
            );
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: u64 = self.deviations.values().sum();
        writeln!(
            f,
            "{} walks: {} agree, {known} differ by a known deviation, {} unexplained",
            self.walks, self.agreements, self.unexplained
        )?;
        for (rule, count) in &self.deviations {
            writeln!(f, "  deviation {count:>9}  {rule}")?;
        }
        for (feature, count) in &self.features {
            writeln!(f, "  covered   {count:>9}  {feature}")?;
        }
        Ok(())
    }
}
