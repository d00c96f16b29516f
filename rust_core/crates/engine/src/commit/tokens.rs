//! Requests that were carried out under a token, so that repeating one has no effect. In memory: after a restart, none is
//! remembered.

use std::collections::{HashMap, VecDeque};

use orcas_base::planted::{self, Bug};
use orcas_decide::RequestToken;

/// Tokens remembered at a time, about 100 bytes each; the oldest is forgotten first.
const TOKENS_MAX: usize = 16_384;

#[derive(Default)]
pub(crate) struct RequestTokens {
    /// Digest of the request by token.
    requests: HashMap<[u8; 32], [u8; 32]>,
    /// The tokens by age, the newest last.
    order: VecDeque<[u8; 32]>,
    /// How many of the newest belong to records that are not published.
    unpublished: usize,
}

impl RequestTokens {
    pub fn request_of(&self, token: &[u8; 32]) -> Option<[u8; 32]> {
        self.requests.get(token).copied()
    }

    /// Remembers a request that was decided.
    pub fn add(&mut self, decided: &RequestToken) {
        if self.requests.insert(decided.token, decided.request).is_some() {
            return;
        }
        self.order.push_back(decided.token);
        self.unpublished += 1;
        if self.order.len() > TOKENS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.requests.remove(&oldest);
            self.unpublished = self.unpublished.min(self.order.len());
        }
    }

    /// Notes that the decided intents take effect.
    pub fn published(&mut self) {
        self.unpublished = 0;
    }

    /// Notes that the decided intents that are not published have failed.
    pub fn failed(&mut self) {
        if planted::is(Bug::TokenOutlivesFailure) {
            return self.published();
        }
        for token in self.order.drain(self.order.len() - self.unpublished..) {
            self.requests.remove(&token);
        }
        self.unpublished = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u64) -> RequestToken {
        let mut token = [0; 32];
        token[..8].copy_from_slice(&number.to_le_bytes());
        RequestToken { token, request: [number as u8; 32] }
    }

    #[test]
    fn what_fails_is_forgotten_and_what_was_published_is_not() {
        let mut tokens = RequestTokens::default();
        tokens.add(&token(1));
        tokens.published();
        tokens.add(&token(1));
        tokens.add(&token(2));
        tokens.failed();
        assert_eq!(tokens.request_of(&token(1).token), Some([1; 32]));
        assert_eq!(tokens.request_of(&token(2).token), None);
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut tokens = RequestTokens::default();
        let many = TOKENS_MAX as u64 + 10;
        (0..many).for_each(|number| tokens.add(&token(number)));
        assert_eq!((tokens.requests.len(), tokens.order.len()), (TOKENS_MAX, TOKENS_MAX));
        assert_eq!(tokens.request_of(&token(9).token), None);
        assert!(tokens.request_of(&token(10).token).is_some());
        tokens.failed();
        assert!(tokens.requests.is_empty() && tokens.order.is_empty());
    }
}
