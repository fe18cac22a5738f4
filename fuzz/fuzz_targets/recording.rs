//! The reader of recordings, and the memory that they describe, over arbitrary bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mmuscope_traces::Format;
use mmuscope_traces::recording::{RecordedTables, Recording};

fuzz_target!(|bytes: &[u8]| {
    // The bytes as a file, and as the records behind a good header.
    for arch in [None, Some("arm64"), Some("x86_64")] {
        let mut file = Vec::new();
        if let Some(arch) = arch {
            file.extend_from_slice(format!("MMTRC001arch={arch} trace fuzzed").as_bytes());
            file.resize(256, 0);
        }
        file.extend_from_slice(bytes);
        let Ok(reader) = Recording::reader(file.as_slice()) else {
            continue;
        };
        let mut tables = RecordedTables::new(reader.header().isa);
        // A record is at least one byte, so the number of bytes bounds the number of records.
        for record in reader.take(bytes.len() + 1).map_while(Result::ok) {
            tables.apply(&record.event);
        }
    }
});
