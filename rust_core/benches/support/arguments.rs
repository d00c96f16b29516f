//! The command line of a benchmark.

use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct Arguments {
    /// On the disk to be measured.
    pub dir: PathBuf,
    pub rounds: usize,
    /// Of one measurement.
    pub span: Duration,
    pub json: bool,
}

impl Arguments {
    /// Reads the command line; `rounds` and `seconds` are the defaults.
    pub fn read(rounds: usize, seconds: f64) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned();
        let mut arguments = Self { dir, rounds, span: Duration::from_secs_f64(seconds), json: false };
        let mut given = std::env::args().skip(1);
        while let Some(name) = given.next() {
            let mut value = || given.next().expect("an option is followed by its value");
            match name.as_str() {
                "--dir" => arguments.dir = value().into(),
                "--rounds" => arguments.rounds = value().parse().expect("a number of rounds"),
                "--seconds" => arguments.span = Duration::from_secs_f64(value().parse().expect("seconds")),
                "--json" => arguments.json = true,
                // Cargo says so to every benchmark.
                "--bench" => {}
                other => panic!("{other} is not an option"),
            }
        }
        arguments
    }
}
