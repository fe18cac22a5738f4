//! The parser of machine profiles, and changes of single values, over arbitrary text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mmuscope_models::profile::Profile;

fuzz_target!(|text: &str| {
    // Errors are one line; so are profiles' names in them.
    if let Err(error) = Profile::parse(text) {
        assert!(!error.to_string().is_empty());
    }
    // `KEY=VALUE` on a built-in profile, as the command line has it.
    if let Some((key, value)) = text.split_once('=')
        && let Ok(mut profile) = Profile::parse("name = \"fuzzed\"\nextends = \"cortex-a76\"\n")
    {
        let _ = profile.set(key, value);
    }
});
