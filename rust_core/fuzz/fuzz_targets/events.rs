//! Events as clients read them: three cuts and a stream of server-sent events. However the stream is cut, the same comes
//! out, and what is kept is bounded. What it says is also read as a message of events: one that was read can be written,
//! and is then read as the same events.
#![cfg_attr(fuzzing, no_main)]

use orcas_events::Event;
use orcas_events::json::{Context, parse_records, write_records};
use orcas_events::sse::{Limits, Parser, TooLong};
use orcas_fuzz::{Input, bounded, fuzz_target};

const LIMITS: Limits = Limits { line_len_max: 256, data_len_max: 512 };
/// Allocated bytes for each byte of input: text that is not UTF-8 becomes a string that doubles until it fits.
const GROWTH_MAX: usize = 16;
/// Allocated bytes whatever the input: buffers of lines and events that double up to their limits.
const ANY_MAX: usize = 32 * (LIMITS.line_len_max + LIMITS.data_len_max);

/// Events as id, type and data, the place to continue, how long to wait, and how it ended.
type Outcome = (Vec<[String; 3]>, String, Option<u64>, Result<(), TooLong>);

fn parse(pieces: &[&[u8]]) -> Outcome {
    let mut parser = Parser::new(LIMITS);
    let mut events = Vec::new();
    let mut result = Ok(());
    for piece in pieces {
        result = parser.push(piece, &mut |message| {
            assert!(message.data.len() <= 3 * LIMITS.data_len_max, "lossy text grows threefold at most");
            events.push([message.id, message.event, message.data].map(str::to_owned));
        });
    }
    (events, parser.last_id().to_owned(), parser.retry_ms(), result)
}

fn events_of(json: &[u8]) -> Option<Vec<Event>> {
    parse_records(json).ok().map(|records| records.into_iter().map(|record| record.event).collect())
}

fn rewritten(events: &[Event]) -> Vec<Event> {
    let mut out = Vec::new();
    write_records(&mut out, Context::default(), events);
    events_of(&out).expect("what was written can be read")
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let cuts = [input.u8(), input.u8(), input.u8()].map(usize::from);
    let stream = input.rest();
    let mut parser = Parser::new(LIMITS);
    // A stream that is too long for the limits ends here as it does in `parse`.
    let _ = bounded(GROWTH_MAX * stream.len() + ANY_MAX, || parser.push(stream, &mut |_| ()));
    let whole = parse(&[stream]);
    let mut pieces = Vec::new();
    let mut rest = stream;
    for cut in cuts {
        let (piece, behind) = rest.split_at(cut.min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    assert_eq!(parse(&pieces), whole, "cut at {cuts:?}");
    assert_eq!(parse(&stream.chunks(1).collect::<Vec<_>>()), whole, "byte by byte");

    if let Some(events) = events_of(stream) {
        // The first reading drops what events do not have.
        let events = rewritten(&events);
        assert_eq!(rewritten(&events), events);
    }
});
