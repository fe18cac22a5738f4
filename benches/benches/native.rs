//! The pointer chase on this host: what `mmuscope curve` is held against.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mmuscope_benches::native::Pages;
use mmuscope_benches::native::chase::Ring;

/// Footprints in pages of 4 KiB: within the first-level TLB of most machines, within the second,
/// beyond.
const FOOTPRINTS: [usize; 5] = [16, 512, 4096, 32_768, 131_072];

fn chase(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chase");
    group
        .measurement_time(Duration::from_secs(2))
        .sample_size(20);
    for pages in [Pages::Small, Pages::Huge] {
        for slots in FOOTPRINTS {
            // A host that gives no huge pages has no such figure.
            let Ok(mut ring) = Ring::new(slots << 12, pages, 1) else {
                continue;
            };
            ring.follow(slots);
            let id = BenchmarkId::new(pages.to_string(), format!("{}K", slots * 4));
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|loads| ring.follow(usize::try_from(loads).unwrap_or(1)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, chase);
criterion_main!(benches);
