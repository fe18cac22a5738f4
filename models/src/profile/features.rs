//! The architecture's options that software can see, as profiles name them and as the boot
//! information of a guest carries them.

use serde::{Deserialize, Serialize};

macro_rules! features {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, bit $bit:literal;)*) => {
        /// One option. Those below bit 16 are AArch64's, the others x86's.
        #[derive(
            Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize,
        )]
        #[repr(u8)]
        pub enum Feature {
            $($(#[$doc])* #[serde(rename = $name)] $variant = $bit,)*
        }

        impl Feature {
            /// Every option.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in profiles.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

features! {
    /// FEAT_TLBIRANGE: range forms of TLBI.
    TlbiRange = "tlbirange", bit 0;
    /// FEAT_TTL: a level hint in TLBI.
    Ttl = "ttl", bit 1;
    /// An erratum that makes software repeat TLBI and DSB once per synchronisation.
    RepeatTlbi = "repeat_tlbi", bit 2;
    /// FEAT_HAFDBS: hardware sets accessed and dirty state.
    Hafdbs = "hafdbs", bit 3;
    /// FEAT_BBML2 without TLB conflict aborts.
    Bbml2NoAbort = "bbml2_noabort", bit 4;
    /// Process-context identifiers.
    Pcid = "pcid", bit 16;
    /// The INVPCID instruction.
    Invpcid = "invpcid", bit 17;
    /// Software isolates the page tables of user and kernel.
    Pti = "pti", bit 18;
    /// Global pages.
    Pge = "pge", bit 19;
    /// 57-bit linear addresses.
    La57 = "la57", bit 20;
}

/// A set of options: bit `n` stands for the [`Feature`] with number `n`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default, Serialize)]
pub struct Features(u64);

impl Features {
    /// The set as a word of bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether `feature` is in the set.
    #[must_use]
    pub const fn contains(self, feature: Feature) -> bool {
        self.0 >> (feature as u8) & 1 != 0
    }

    /// The set with `feature` added or taken away.
    #[must_use]
    pub const fn with(self, feature: Feature, present: bool) -> Self {
        let bit = 1 << (feature as u8);
        if present {
            Self(self.0 | bit)
        } else {
            Self(self.0 & !bit)
        }
    }

    /// The options in the set.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        let all = Feature::ALL.iter().copied();
        all.filter(move |feature| self.contains(*feature))
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        features
            .into_iter()
            .fold(Self::default(), |set, feature| set.with(feature, true))
    }
}
