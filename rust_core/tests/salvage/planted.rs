//! Each deliberate defect of `orcas_base::planted` that is this suite's until it has caught it: stores without damage, with
//! what compaction replaced still there, and damaged at random. `ORCAS_PLANTED=Name` asks for one of them only.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use orcas_base::planted::{Bug, Suite, choose};

use crate::damage::{Index, Plan};
use crate::judge::{Bench, Tally};
use crate::{benches, store};

/// Damaged stores after which a defect counts as hidden.
const STORES_MAX: u64 = 600;

/// What the judge says of a store, in one line.
fn judge(bench: &Bench, plan: &Plan) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| bench.run(plan, &mut Tally::default()))) {
        Ok(judged) => judged.err(),
        Err(_) => Some("panicked".to_owned()),
    }
}

/// How it was caught, and what was seen.
fn hunt(bug: Bug, benches: &[Bench], replaced: &Bench) -> Option<(String, String)> {
    choose(Some(bug));
    let whole = Plan { index: Index::Missing, ..Plan::nothing() };
    let undamaged = || judge(replaced, &whole).map(|words| ("a store with replaced files".to_owned(), words));
    let damaged = || {
        (1..=STORES_MAX).find_map(|seed| {
            let bench = &benches[(seed % benches.len() as u64) as usize];
            judge(bench, &Plan::random(seed, &bench.built)).map(|words| (format!("seed {seed}"), words))
        })
    };
    let caught = undamaged().or_else(damaged);
    choose(None);
    caught
}

#[test]
#[ignore = "takes minutes: make planted"]
fn every_planted_defect_is_caught() {
    let (benches, replaced) = (benches(), Bench::new(store::with_replaced_files(store::LARGE)));
    // Panics are what is looked for here.
    std::panic::set_hook(Box::new(|_| {}));
    let mut hidden = Vec::new();
    for bug in Bug::asked_of(Suite::Salvage) {
        let started = Instant::now();
        let caught = hunt(bug, &benches, &replaced);
        let seconds = started.elapsed().as_secs_f64();
        match caught {
            Some((by, words)) => println!("| {bug:?} | {by} | {seconds:.1} s | {words}"),
            None => {
                println!("| {bug:?} | not caught | {seconds:.0} s |");
                hidden.push(bug);
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(hidden.is_empty(), "not caught: {hidden:?}");
}
