//! Options of the listener, as the operator sets them.

use crate::connections::proxies::Proxies;
use crate::elsewhere::reads::Cluster;

#[derive(Clone, Debug)]
pub struct FrontOptions {
    /// Threads, each with an event loop of its own.
    pub threads: usize,
    pub limits: Limits,
    /// The paths below these are not S3's, nor are those of them that end without a slash.
    pub reserved: Vec<String>,
    /// Reserved paths that each node of a cluster answers itself.
    pub of_node: Vec<String>,
    /// This node carries requests out, until `Front::set_owner` says otherwise. If not, none is known that does.
    pub is_owner: bool,
    /// None if the server is no node.
    pub cluster: Option<Cluster>,
    /// Names below which buckets are hosts, and that of websites: no path is reserved there.
    pub domains: Vec<String>,
    pub website_host: Option<String>,
    /// The proxies whose headers about the origin of a request count.
    pub trusted_proxies: Proxies,
    /// A server with published keys answers only to these names and to those of this machine.
    pub own_names: Option<Vec<String>>,
    /// Bytes of bodies in memory that are not complete; a share of it for senders that are not known yet.
    pub body_budget: u64,
}

/// Seconds, except the first.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes.
    pub head_size_max: usize,
    pub head_sec: u32,
    pub body_sec: u32,
    pub idle_sec: u32,
}
