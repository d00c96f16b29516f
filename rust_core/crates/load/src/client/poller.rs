//! Waits until connections are ready, with epoll on Linux and poll(2) elsewhere. Level-triggered: a connection with
//! unread data is reported again.

#[cfg(target_os = "linux")]
pub use linux::Poller;
#[cfg(not(target_os = "linux"))]
pub use portable::Poller;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::mem::MaybeUninit;
    use std::net::TcpStream;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::event::{Timespec, epoll};

    /// Most connections that one call of `wait` reports. The others are reported by the next one.
    const EVENTS_MAX: usize = 64;

    /// Connections must be removed before they are closed.
    pub struct Poller {
        epoll: OwnedFd,
    }

    fn flags(writes: bool) -> epoll::EventFlags {
        if writes { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN }
    }

    impl Poller {
        pub fn new() -> io::Result<Self> {
            Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
        }

        /// Reports `token` when `stream` is readable.
        pub fn add(&mut self, token: usize, stream: &TcpStream) -> io::Result<()> {
            Ok(epoll::add(&self.epoll, stream, epoll::EventData::new_u64(token as u64), flags(false))?)
        }

        /// Sets whether `token` is also reported when `stream` is writable.
        pub fn watch_writes(&mut self, token: usize, stream: &TcpStream, writes: bool) -> io::Result<()> {
            Ok(epoll::modify(&self.epoll, stream, epoll::EventData::new_u64(token as u64), flags(writes))?)
        }

        pub fn remove(&mut self, _token: usize, stream: &TcpStream) -> io::Result<()> {
            Ok(epoll::delete(&self.epoll, stream)?)
        }

        /// Waits for ready connections and replaces the content of `ready` with their tokens.
        pub fn wait(&mut self, timeout: Duration, ready: &mut Vec<usize>) -> io::Result<()> {
            ready.clear();
            let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS_MAX];
            let timeout = Timespec::try_from(timeout).unwrap_or_default();
            match epoll::wait(&self.epoll, &mut events[..], Some(&timeout)) {
                // Packed on some machines, so no reference to the field is taken.
                Ok((reported, _)) => ready.extend(reported.iter().map(|event| { event.data }.u64() as usize)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(())
        }
    }
}

#[cfg(any(test, not(target_os = "linux")))]
mod portable {
    use std::io;
    use std::net::TcpStream;
    use std::os::fd::{AsFd, OwnedFd};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    struct Watched {
        token: usize,
        stream: OwnedFd,
        writes: bool,
    }

    #[derive(Default)]
    pub struct Poller {
        watched: Vec<Watched>,
    }

    impl Poller {
        #[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
        pub fn new() -> io::Result<Self> {
            Ok(Self::default())
        }

        pub fn add(&mut self, token: usize, stream: &TcpStream) -> io::Result<()> {
            let stream = stream.as_fd().try_clone_to_owned()?;
            self.watched.push(Watched { token, stream, writes: false });
            Ok(())
        }

        #[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
        pub fn watch_writes(&mut self, token: usize, _stream: &TcpStream, writes: bool) -> io::Result<()> {
            self.watched.iter_mut().filter(|watched| watched.token == token).for_each(|one| one.writes = writes);
            Ok(())
        }

        #[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
        pub fn remove(&mut self, token: usize, _stream: &TcpStream) -> io::Result<()> {
            self.watched.retain(|watched| watched.token != token);
            Ok(())
        }

        pub fn wait(&mut self, timeout: Duration, ready: &mut Vec<usize>) -> io::Result<()> {
            ready.clear();
            let flags = |writes| if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let mut polled: Vec<PollFd<'_>> =
                self.watched.iter().map(|watched| PollFd::new(&watched.stream, flags(watched.writes))).collect();
            let timeout = Timespec::try_from(timeout).unwrap_or_default();
            match poll(&mut polled, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let events = polled.iter().zip(&self.watched).filter(|(polled, _)| !polled.revents().is_empty());
            ready.extend(events.map(|(_, watched)| watched.token));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(10);
    const NOW: Duration = Duration::ZERO;

    macro_rules! behaves {
        ($name:ident, $poller:ty) => {
            #[test]
            fn $name() {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
                let connect = || TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
                let (mut ours, other) = (connect(), connect());
                let (mut theirs, _) = listener.accept().expect("connected");
                let (mut poller, mut ready) = (<$poller>::new().expect("a poller"), vec![9]);
                poller.add(1, &ours).expect("added");
                poller.add(2, &other).expect("added");
                poller.wait(NOW, &mut ready).expect("waited");
                assert!(ready.is_empty());
                theirs.write_all(b"ab").expect("sent");
                for _ in 0..2 {
                    poller.wait(SOON, &mut ready).expect("waited");
                    assert_eq!(ready, [1], "reported again while something is unread");
                    ours.read_exact(&mut [0]).expect("there");
                }
                poller.watch_writes(2, &other, true).expect("changed");
                poller.wait(SOON, &mut ready).expect("waited");
                assert_eq!(ready, [2]);
                poller.watch_writes(2, &other, false).expect("changed");
                poller.wait(NOW, &mut ready).expect("waited");
                assert!(ready.is_empty());
                drop(theirs);
                poller.wait(SOON, &mut ready).expect("waited");
                assert_eq!(ready, [1], "the end of the stream makes it readable");
                poller.remove(1, &ours).expect("removed");
                poller.wait(NOW, &mut ready).expect("waited");
                assert!(ready.is_empty());
            }
        };
    }

    #[cfg(target_os = "linux")]
    behaves!(epoll, super::linux::Poller);
    behaves!(poll, super::portable::Poller);
}
