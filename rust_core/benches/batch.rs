//! PUTs a second through the engine with batch writes on and off: sizes, intents in flight and durability in all
//! combinations, both ways in turn in every round.
//!
//! `cargo bench --bench batch -- [--dir DIR] [--rounds N] [--seconds S] [--json]`. With `--json` the only line on stdout is a
//! list of documents, one a combination, with operations a second, one number a round.

#[path = "support/arguments.rs"]
mod arguments;
#[path = "support/pump.rs"]
mod pump;
#[path = "support/puts.rs"]
mod puts;
mod support;

use orcas_record::Durability;

use arguments::Arguments;
use puts::Puts;

const SIZES: [usize; 3] = [1 << 10, 4 << 10, 64 << 10];
const IN_FLIGHT: [usize; 4] = [1, 10, 50, 100];
const MODES: [(&str, Durability); 2] = [("buffered", Durability::Buffered), ("sync", Durability::Sync)];

/// One combination, with the operations a second of each round.
struct Cell {
    mode: &'static str,
    size: usize,
    in_flight: usize,
    on: Vec<f64>,
    off: Vec<f64>,
}

fn main() {
    let arguments = Arguments::read(5, 0.5);
    let span = arguments.span;
    let mut cells = Vec::new();
    for (mode, durability) in MODES {
        // A store of its own for each size: what one leaves behind is not the other's.
        for size in SIZES {
            let dir = tempfile::tempdir_in(&arguments.dir).expect("a directory");
            let mut on = Puts::new(&dir.path().join("on"), durability, true);
            let mut off = Puts::new(&dir.path().join("off"), durability, false);
            for in_flight in IN_FLIGHT {
                let mut cell = Cell { mode, size, in_flight, on: Vec::new(), off: Vec::new() };
                for round in 0..=arguments.rounds {
                    // The other one is first in the next round.
                    let (with, without) = if round % 2 == 0 {
                        let with = on.run(size, in_flight, span);
                        (with, off.run(size, in_flight, span))
                    } else {
                        let without = off.run(size, in_flight, span);
                        (on.run(size, in_flight, span), without)
                    };
                    // The first round makes files and fills caches.
                    if round > 0 {
                        cell.on.push(with);
                        cell.off.push(without);
                    }
                }
                if !arguments.json {
                    cell.tell();
                }
                cells.push(cell);
            }
        }
    }
    if arguments.json {
        let documents: Vec<String> = cells.iter().map(Cell::document).collect();
        println!("[{}]", documents.join(", "));
    }
}

impl Cell {
    fn tell(&self) {
        let median = |values: &[f64]| {
            let mut values = values.to_vec();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let ratios: Vec<f64> = self.on.iter().zip(&self.off).map(|(on, off)| on / off).collect();
        println!(
            "{:<9} {:>6} bytes {:>4} in flight  on {:>8.0}/s  off {:>8.0}/s  on ÷ off {:.2}",
            self.mode,
            self.size,
            self.in_flight,
            median(&self.on),
            median(&self.off),
            median(&ratios)
        );
    }

    fn document(&self) -> String {
        let Self { mode, size, in_flight, on, off } = self;
        format!(
            "{{\"mode\": \"{mode}\", \"size\": {size}, \"in_flight\": {in_flight}, \"on\": {on:.1?}, \"off\": {off:.1?}}}"
        )
    }
}
