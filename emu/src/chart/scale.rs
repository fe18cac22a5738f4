//! Values to places on an axis, and where its ticks are.

/// How values are placed on an axis.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Even steps, from zero.
    Linear,
    /// Powers of ten.
    Log10,
    /// Powers of two, labelled as sizes: `64K`, `2M`.
    Bytes,
}

/// An axis that fits its values.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Fitted {
    scale: Scale,
    /// The ends in the scale's own measure: values, or their logarithms.
    low: f64,
    high: f64,
}

/// A tick: where it is, as a part of the axis, and its label; minor ones have none.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

impl Fitted {
    /// The axis of `scale` that has room for all of `values`.
    pub(super) fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let placed = values.filter_map(|value| measure(scale, value));
        let (low, high) = placed.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| {
            (low.min(it), high.max(it))
        });
        if low > high {
            return Self {
                scale,
                low: 0.0,
                high: 1.0,
            };
        }
        let (low, high) = match scale {
            Scale::Linear => (low.min(0.0), high + (high - low.min(0.0)) * 0.05),
            Scale::Log10 => (
                whole_or_part(low, f64::floor),
                whole_or_part(high, f64::ceil),
            ),
            Scale::Bytes => (low, high),
        };
        // One value only still needs an axis with two ends.
        let high = if high > low { high } else { low + 1.0 };
        Self { scale, low, high }
    }

    /// Where `value` is, as a part of the axis from 0 to 1; `None` if it has no place.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let place = (measure(self.scale, value)? - self.low) / (self.high - self.low);
        (-1e-9..=1.0 + 1e-9).contains(&place).then_some(place)
    }

    /// The ticks, in order.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let values = match self.scale {
            Scale::Linear => self.even_steps(),
            Scale::Log10 => self.decades(),
            Scale::Bytes => self.powers_of_two(),
        };
        let tick = |(value, label)| Some((self.place(value)?, label));
        let placed = values.into_iter().filter_map(tick);
        placed.map(|(at, label)| Tick { at, label }).collect()
    }

    fn even_steps(&self) -> Vec<(f64, String)> {
        let raw = (self.high - self.low) / 6.0;
        let unit = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|it| it * unit)
            .into_iter()
            .find(|step| *step >= raw)
            .unwrap_or(raw);
        let decimals = if step < 1.0 { 2 } else { 0 };
        let first = (self.low / step).ceil();
        let values = (0..=10).map(|n| (first + f64::from(n)) * step);
        values.map(|it| (it, format!("{it:.decimals$}"))).collect()
    }

    /// 1, 2 and 5 of every power of ten; only the ones have labels if there are many.
    fn decades(&self) -> Vec<(f64, String)> {
        let labels = self.high - self.low < 2.5;
        let exponents = whole(self.low)..=whole(self.high);
        let steps = exponents.flat_map(|n| [(1.0, n), (2.0, n), (5.0, n)]);
        steps
            .map(|(digit, exponent)| {
                let value = digit * 10f64.powi(exponent);
                let shown = labels || digit < 1.5;
                (value, if shown { plain(value) } else { String::new() })
            })
            .collect()
    }

    fn powers_of_two(&self) -> Vec<(f64, String)> {
        let (low, high) = (whole(self.low), whole(self.high));
        let every = ((high - low + 7) / 8).max(1);
        (low..=high)
            .map(|exponent| {
                let value = 2f64.powi(exponent);
                let shown = (exponent - low) % every == 0;
                (value, if shown { bytes(value) } else { String::new() })
            })
            .collect()
    }
}

/// `value` in the measure of `scale`; `None` if it has no place on it.
fn measure(scale: Scale, value: f64) -> Option<f64> {
    let measured = match scale {
        Scale::Linear => value,
        Scale::Log10 => value.log10(),
        Scale::Bytes => value.log2(),
    };
    measured.is_finite().then_some(measured)
}

/// The end of a decade, or of its half or fifth, whichever `round` reaches first.
fn whole_or_part(exponent: f64, round: fn(f64) -> f64) -> f64 {
    let decade = exponent.floor();
    let part = 10f64.powf(exponent - decade);
    let ends = [1.0, 2.0, 5.0, 10.0];
    let chosen = if round(0.5) > 0.5 {
        ends.into_iter().find(|end| *end >= part - 1e-9)
    } else {
        ends.into_iter().rev().find(|end| *end <= part + 1e-9)
    };
    decade + chosen.unwrap_or(part).log10()
}

/// An exponent as a whole number; exponents of finite values fit.
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
fn whole(exponent: f64) -> i32 {
    exponent.floor() as i32
}

fn plain(value: f64) -> String {
    // From where a prefix is used, and what it stands for.
    let prefixes = [("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e4, 1e3)];
    if let Some((name, _, unit)) = prefixes.into_iter().find(|it| value >= it.1) {
        return format!("{:.0}{name}", value / unit);
    }
    let decimals = if value < 0.095 {
        2
    } else if value < 0.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$}")
}

/// A size with the largest prefix that leaves at least one: `48K`, `1.5M`.
pub(super) fn bytes(value: f64) -> String {
    let units = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    let unit = units.into_iter().find(|it| value >= 2f64.powi(it.1));
    let (name, exponent) = unit.unwrap_or(("", 0));
    let scaled = value / 2f64.powi(exponent);
    let decimals = usize::from((scaled - scaled.round()).abs() > 0.05);
    format!("{scaled:.decimals$}{name}")
}
