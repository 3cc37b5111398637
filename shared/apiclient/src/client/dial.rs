//! Dialing: the proxy, the look-up of names, and the TCP connection.

mod names;
mod proxy;
mod tcp;

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::LazyLock,
    time::{Duration, Instant},
};

use ureq::{
    ProxyProtocol, Timeout,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::{ConnectionDetails, Connector, Either, NextTimeout, Transport},
    },
};

use self::{
    names::DnsCache,
    proxy::{bare_host, port},
    tcp::TcpTransport,
};

pub(crate) use self::{proxy::proxy, tcp::buffers};

/// For a name (the resolver of musl asks a second server after 2.5 s), and again for the TCP connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Placeholder resolver: ureq asks for addresses before every request, also on a kept connection, but
/// [`Dial`] looks a name up when a connection is really opened. Only a SOCKS proxy, to which ureq connects
/// itself, needs the look-up at once.
#[derive(Debug)]
pub(crate) struct LazyResolver;

/// Names of all clients, so that a client inherits those of its predecessor.
static NAMES: LazyLock<DnsCache> = LazyLock::new(DnsCache::default);

const LATER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Resolver for LazyResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        let socks = config.proxy().filter(|proxy| proxy.protocol() == ProxyProtocol::Socks5h);
        if socks.is_none_or(|proxy| proxy.uri() != uri) {
            addresses.push(LATER);
            return Ok(addresses);
        }
        let found = NAMES.look_up(bare_host(uri), port(uri), bounded(timeout))?;
        // ureq keeps 16 addresses at most.
        found.iter().take(16).for_each(|address| addresses.push(*address));
        Ok(addresses)
    }
}

/// Opens the TCP connection to a server or a proxy.
pub(crate) struct Dial;

impl<In: Transport> Connector<In> for Dial {
    type Out = Either<In, TcpTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        if let Some(transport) = chained {
            return Ok(Some(Either::A(transport)));
        }
        let (host, port) = (bare_host(details.uri), port(details.uri));
        let addresses = NAMES.look_up(host, port, bounded(details.timeout))?;
        let time = bounded(left_of(details));
        let stream = tcp::connect(&addresses, Instant::now() + time).map_err(|error| {
            let over = error.kind() == std::io::ErrorKind::TimedOut;
            if over { ureq::Error::Timeout(Timeout::Connect) } else { error.into() }
        })?;
        // The next connection need not find out again which of them answers.
        NAMES.prefer(host, stream.peer_addr()?);
        TcpTransport::new(stream, details).map(|transport| Some(Either::B(transport)))
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dial")
    }
}

/// The rest of the time to connect after the links before.
pub(crate) fn left_of(details: &ConnectionDetails) -> NextTimeout {
    use ureq::unversioned::transport::time::Instant;

    let mut timeout = details.timeout;
    if let (false, Instant::Exact(now), Instant::Exact(start)) =
        (timeout.after.is_not_happening(), (details.current_time)(), details.now)
    {
        timeout.after = timeout.after.saturating_sub(now.saturating_duration_since(start)).into();
    }
    timeout
}

/// At most our own patience.
fn bounded(timeout: NextTimeout) -> Duration {
    timeout.not_zero().map_or(PATIENCE, |time| PATIENCE.min(*time))
}
