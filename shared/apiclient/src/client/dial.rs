//! Dialing: the proxy, the look-up of a name, and the TCP connection.

mod proxy;
mod tcp;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use ureq::{
    Timeout,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{ConnectionDetails, Connector, Either, NextTimeout, Transport},
    },
};

use self::tcp::TcpTransport;

pub(crate) use self::proxy::{bare_host, port, proxy};

/// For a name (the resolver of musl asks a second server after 2.5 s), and again for the TCP connection.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Placeholder resolver: ureq asks for addresses before every request, also on a kept connection, but
/// [`Dial`] looks a name up when a connection is really opened. With a proxy, ureq asks for that of SOCKS alone, to
/// which it connects itself.
#[derive(Debug)]
pub(crate) struct LazyResolver;

const LATER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Resolver for LazyResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        if config.proxy().is_some() {
            return DefaultResolver::default().resolve(uri, config, bounded(timeout));
        }
        let mut addresses = self.empty();
        addresses.push(LATER);
        Ok(addresses)
    }
}

#[derive(Debug)]
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
        let (uri, config) = (details.uri, details.config);
        let timeout = bounded(details.timeout);
        let addresses = DefaultResolver::default().resolve(uri, config, timeout)?;
        let deadline = Instant::now() + *bounded(left_of(details)).after;
        let stream = tcp::connect(&addresses, deadline).map_err(|error| {
            let over = error.kind() == std::io::ErrorKind::TimedOut;
            if over { ureq::Error::Timeout(Timeout::Connect) } else { error.into() }
        })?;
        TcpTransport::new(stream, details).map(|transport| Some(Either::B(transport)))
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

fn bounded(timeout: NextTimeout) -> NextTimeout {
    NextTimeout { after: timeout.after.min(DIAL_TIMEOUT.into()), ..timeout }
}
