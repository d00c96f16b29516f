//! Pooled memory: it returns to the pool however a request ends, and is freed when nobody needs it.

use super::*;
use orcas_base::buffers::BufferCounts;

/// Sizes below and above what is pooled, inline, whole, in one piece and in several.
const SIZES: [usize; 8] = [0, 1, 513, 9_000, 40_000, 65_536, 300_000, (3 << 20) + 1];

impl Fixture {
    fn pooling(enabled: bool) -> Self {
        Self::open_with(tempfile::tempdir().unwrap(), enabled)
    }

    fn buffers(&self) -> BufferCounts {
        self.gateway.services.bodies.buffers.counts()
    }

    /// Everything that requests do with memory, well and badly.
    fn exercise(&self) {
        self.call("PUT", "/bucket", &[], b"");
        for size in SIZES {
            let target = format!("/bucket/{size}");
            let content = noise(size);
            assert_eq!(self.call("PUT", &target, &[], &content).status, 200);
            let got = self.call("GET", &target, &[], b"");
            assert_eq!(self.content(got).unwrap(), content, "{size}");
            let copied = self.call("PUT", "/bucket/copy", &[("x-amz-copy-source", target.as_str())], b"");
            assert_eq!(copied.status, 200);
            if size > 0 {
                let mut other = content.clone();
                other[size / 2] ^= 1;
                let request = self.accept("PUT", &target, &[], &content).map_err(|a| code(&a)).unwrap();
                assert_eq!(code(&self.carry_out(&request, &other)), "XAmzContentSHA256Mismatch");
                assert_eq!(self.call("GET", &target, &[("range", "bytes=0-0")], b"").status, 206);
                // The client goes away before it has read anything.
                drop(self.call("GET", &target, &[], b""));
            }
        }
        let content = noise(500_000);
        let request = self.accept("PUT", "/bucket/never", &[], &content).map_err(|a| code(&a)).unwrap();
        let stream = request.open_body("127.0.0.1").unwrap();
        assert_eq!(stream.admit(Box::new(|| ())), Flow::More);
        stream.push(&content[..100_000]);
        drop(stream);
        let listed = self.call("GET", "/bucket?list-type=2", &[], b"");
        let listed = String::from_utf8(self.content(listed).unwrap()).unwrap();
        assert_eq!(listed.matches("<Key>").count(), SIZES.len() + 1);
    }

    /// Waits until `holds` of the counters.
    fn wait_for(&self, what: &str, holds: impl Fn(&BufferCounts) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !holds(&self.buffers()) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.buffers());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn memory_comes_back_whatever_becomes_of_a_request_and_is_given_back_at_rest() {
    let fixture = Fixture::pooling(true);
    fixture.exercise();
    // Small bodies stay in the overlay until the index has them.
    fixture.wait_for("all of it comes back", |counts| counts.out_bytes == 0);
    let counts = fixture.buffers();
    assert!(counts.hits > 0 && counts.misses > 0 && counts.returned > 0, "{counts:?}");
    assert_eq!(counts.hits + counts.misses, counts.returned + counts.discarded);
    fixture.wait_for("what nobody needs is given back", |counts| counts.held_bytes == 0);
}

#[test]
fn without_pooling_the_same_requests_leave_no_trace() {
    let fixture = Fixture::pooling(false);
    fixture.exercise();
    assert_eq!(fixture.buffers(), BufferCounts::default());
    assert_eq!(fixture.gateway.engine.health().pools.buffers, BufferCounts::default());
    let connections = fixture.gateway.engine.health().pools.connections;
    assert!(connections.misses > 0);
    assert_eq!((connections.hits, connections.idle), (0, 0));
}

/// A page that needed more room than a pooled buffer has is told from one that did not.
#[test]
fn a_document_that_outgrows_its_buffer_is_whole() {
    let fixture = Fixture::pooling(true);
    fixture.call("PUT", "/bucket", &[], b"");
    let long = "k".repeat(1000);
    for n in 0..40 {
        assert_eq!(fixture.call("PUT", &format!("/bucket/{long}{n}"), &[], b"x").status, 200);
    }
    let page = |query: &str| {
        let page = fixture.call("GET", &format!("/bucket?list-type=2&max-keys={query}"), &[], b"");
        String::from_utf8(fixture.content(page).unwrap()).unwrap().matches("<Key>").count()
    };
    // 40 entries of 1,200 bytes outgrow the 16 KiB for 40, not the room for 1,000.
    assert_eq!((page("40"), page("1000")), (40, 40));
    fixture.wait_for("both came back", |counts| counts.out_bytes == 0);
    assert_eq!(fixture.buffers().discarded, 1);
}
