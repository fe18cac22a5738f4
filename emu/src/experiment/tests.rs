use mmuscope_models::cost::{Attribution, Cycles};

use super::*;

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&it| it.to_owned()).collect()
}

fn both() -> Vec<Selected> {
    machines::select(&words(&["cortex-a76", "skylake-sp"]), &[]).unwrap()
}

fn mremap(list: &[&str], base: &[&str]) -> Result<Experiment<'static>, ExperimentError> {
    Experiment::scenario("mremap", &words(list), &words(base), both())
}

/// A guest whose time is the length of its parameters: enough to tell runs apart.
fn fake(job: &Job<'_>) -> Result<Finished, String> {
    let length: usize = job.params.iter().map(|it| it.1.len()).sum();
    let cycles = Cycles::new(length as u64);
    Ok(Finished {
        verdict: Verdict::Fine,
        results: Pairs::default(),
        regions: vec![Region {
            name: "mremap".to_owned(),
            cycles: Some(cycles),
            nanoseconds: Some(cycles.nanoseconds(job.profile.ghz())),
            attribution: Some(Attribution::default()),
            ..Region::default()
        }],
        console: String::new(),
    })
}

fn report(experiment: &Experiment<'_>, jobs: usize) -> Report {
    let options = Options {
        jobs: Some(jobs),
        ..Options::default()
    };
    let report = experiment.run(&options, &fake, &|_| {}, &|| {});
    report.unwrap()
}

#[test]
fn machines_and_points_are_run_in_the_order_of_the_command() {
    let experiment = mremap(&["level=pud,pte"], &[]).unwrap();
    let report = report(&experiment, 1);
    let order: Vec<_> = report
        .runs
        .iter()
        .map(|it| (it.machine.as_str(), it.point.get("level").unwrap().as_str()))
        .collect();
    let (arm, x86) = ("cortex-a76", "skylake-sp");
    assert_eq!(
        order,
        [(arm, "pud"), (arm, "pte"), (x86, "pud"), (x86, "pte")]
    );
    assert_eq!(report.base.0, [("level".to_owned(), "pud".to_owned())]);
}

#[test]
fn the_report_does_not_depend_on_how_many_run_at_a_time() {
    let experiment = mremap(&["level=pte,pmd,pud", "flush=extent,end"], &[]).unwrap();
    let json = |jobs| serde_json::to_string(&report(&experiment, jobs)).unwrap();
    assert_eq!(json(1), json(4));
}

#[test]
fn an_axis_of_one_architecture_does_not_multiply_the_runs_of_the_other() {
    let experiment = mremap(&["tlbirange=on,off"], &[]).unwrap();
    assert_eq!(experiment.runs(), 3);
    let report = report(&experiment, 1);
    assert!(report.runs[2].point.get("tlbirange").is_none());
    assert!(report.axes.get("pcid").is_none(), "nobody asked");
}

#[test]
fn an_axis_that_no_machine_has_is_refused() {
    let arm = machines::select(&words(&["cortex-a76"]), &[]).unwrap();
    let refused = Experiment::scenario("mremap", &words(&["pcid=off"]), &[], arm);
    let message = refused.err().unwrap().to_string();
    assert!(
        message.starts_with("axis `pcid` exists on x86_64 only"),
        "{message}"
    );
}

#[test]
fn features_reach_the_machine_and_not_the_guests_parameters() {
    let experiment = mremap(&["tlbirange=on"], &[]).unwrap();
    let job = experiment.job(&experiment.plan[0], Timing::Full, None);
    let range = mmuscope_models::profile::Feature::TlbiRange;
    assert!(job.features.contains(range));
    assert!(job.params.iter().all(|it| it.0 != "tlbirange"));
    assert!(
        job.params
            .contains(&("size".to_owned(), (1_u64 << 30).to_string()))
    );
}

#[test]
fn the_baseline_must_be_run() {
    let refused = mremap(&["level=pmd,pud"], &["level=pte"]);
    let message = refused.err().unwrap().to_string();
    assert_eq!(
        message,
        "--base: level=pte is not run: expected one of the values of this command, pmd or pud"
    );
    let experiment = mremap(&["level=pmd,pud"], &["level=pud"]).unwrap();
    assert_eq!(report(&experiment, 1).base.get("level").unwrap(), "pud");
}

#[test]
fn a_run_that_cannot_be_made_is_a_row_that_failed() {
    let experiment = mremap(&["level=pmd,pud"], &[]).unwrap();
    let run = |job: &Job<'_>| match job.profile.arch() {
        "aarch64" => Err("no memory".to_owned()),
        _ => fake(job),
    };
    let report = experiment
        .run(&Options::default(), &run, &|_| {}, &|| {})
        .unwrap();
    assert!(report.has_failed());
    assert_eq!(
        report.runs[0].verdict,
        Verdict::Failed("no memory".to_owned())
    );
    assert_eq!(report.runs[3].verdict, Verdict::Fine);
}

#[test]
fn a_program_for_another_architecture_is_refused() {
    let refused = Experiment::program("x.elf", &[], ArchName::X86_64, &[], both());
    let message = refused.err().unwrap().to_string();
    assert!(message.contains("its code is for x86_64"), "{message}");
    assert!(message.contains("`cortex-a76` is aarch64"), "{message}");
}

#[test]
fn an_unknown_scenario_gets_a_suggestion() {
    let message = find_scenario("mremp").err().unwrap().to_string();
    assert_eq!(
        message,
        "unknown scenario `mremp`: expected chase, fork, memmap, mprotect, mremap or munmap; did you mean `mremap`?"
    );
}

#[test]
fn more_cpus_than_the_machine_has_are_refused_with_the_way_out() {
    let message = mremap(&["cpus=1,200"], &[]).err().unwrap().to_string();
    assert!(
        message.contains("more than the 8 of profile `cortex-a76`"),
        "{message}"
    );
    let names = words(&["cortex-a76", "skylake-sp"]);
    let larger = machines::select(&names, &words(&["topology.cpus=200"])).unwrap();
    assert!(Experiment::scenario("mremap", &words(&["cpus=200"]), &[], larger).is_ok());
}

#[test]
fn of_several_seeds_the_middle_run_is_shown_with_the_spread() {
    let experiment = mremap(&["level=pud"], &[]).unwrap();
    let options = Options {
        seeds: vec![5, 1, 3],
        ..Options::default()
    };
    let run = |job: &Job<'_>| {
        let mut finished = fake(job)?;
        finished.regions[0].cycles = job.seed.map(|seed| Cycles::new(seed * 100));
        Ok(finished)
    };
    let report = experiment.run(&options, &run, &|_| {}, &|| {}).unwrap();
    assert_eq!(report.seeds, [5, 1, 3]);
    assert_eq!(report.runs.len(), 2);
    let region = &report.runs[0].regions[0];
    assert_eq!(region.cycles, Some(Cycles::new(300)));
    let spread = region.spread.unwrap();
    assert_eq!(spread.runs, 3);
    assert_eq!(
        (spread.low, spread.median, spread.high),
        (Cycles::new(100), Cycles::new(300), Cycles::new(500))
    );
}
