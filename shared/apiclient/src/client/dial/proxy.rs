//! Choice of the proxy for a server, and NO_PROXY.

use std::net::IpAddr;

use ureq::http::Uri;

use crate::error::{Error, Result};

/// The proxy for `server`: the kubeconfig's, else the environment's by Go's rules.
pub(crate) fn proxy(
    configured: Option<&str>,
    server: &Uri,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<ureq::Proxy>> {
    let url = match configured {
        Some(url) => Some(url.to_owned()),
        None => proxy_from_environment(server, env),
    };
    let Some(url) = url else { return Ok(None) };
    // Go's socks5 lets the proxy resolve names; ureq calls that socks5h.
    let url = match url.strip_prefix("socks5://") {
        Some(rest) => format!("socks5h://{rest}"),
        None => url,
    };
    // The URL may hold a password, which must not appear in the error.
    ureq::Proxy::new(&url)
        .map(Some)
        .map_err(|_| Error::bad_config(format!("the proxy URL for {server} cannot be used")))
}

/// As golang.org/x/net/http/httpproxy: the server's scheme selects the variable, in upper or lower case; there is no
/// proxy for localhost.
fn proxy_from_environment(server: &Uri, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let either = |upper: &str, lower: &str| {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        set(upper).or_else(|| set(lower))
    };
    let url = match server.scheme_str() {
        Some("http") => either("HTTP_PROXY", "http_proxy"),
        _ => either("HTTPS_PROXY", "https_proxy"),
    }?;
    let host = bare_host(server).to_ascii_lowercase();
    let ip = host.parse::<IpAddr>().ok();
    if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return None;
    }
    let exempt = either("NO_PROXY", "no_proxy").unwrap_or_default();
    let exempted = exempt.split(',').any(|entry| no_proxy(entry.trim(), &host, ip, port(server)));
    (!exempted).then_some(url)
}

fn no_proxy(entry: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((net, bits)) = entry.split_once('/') {
        let (Ok(net), Ok(bits), Some(ip)) = (net.parse::<IpAddr>(), bits.parse(), ip) else {
            return false;
        };
        return in_network(ip, net, bits);
    }
    let (name, wanted) = split_port(entry);
    if name.is_empty() || wanted.is_some_and(|wanted| wanted != port) {
        return false;
    }
    let name = name.to_ascii_lowercase();
    if let Ok(other) = name.parse::<IpAddr>() {
        return ip == Some(other);
    }
    let domain = name.strip_prefix("*.").or_else(|| name.strip_prefix('.'));
    let subdomain_of =
        |domain: &str| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    match domain {
        Some(domain) => subdomain_of(domain),
        None => host == name || subdomain_of(&name),
    }
}

fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some(rest) = entry.strip_prefix('[') {
        let (name, rest) = rest.split_once(']').unwrap_or((rest, ""));
        return (name, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn in_network(ip: IpAddr, net: IpAddr, bits: u32) -> bool {
    let number = |ip| match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    };
    let ((ip, width), (net, net_width)) = (number(ip), number(net));
    let differs = || (ip ^ net).checked_shr(width - bits).is_some_and(|rest| rest != 0);
    width == net_width && bits <= width && !differs()
}

/// The host without the brackets of an IPv6 address.
pub(crate) fn bare_host(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

pub(crate) fn port(uri: &Uri) -> u16 {
    let default = match uri.scheme_str() {
        Some("http") => 80,
        Some("socks5h") => 1080,
        _ => 443,
    };
    uri.port_u16().unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(server: &str, vars: &[(&str, &str)]) -> Option<String> {
        let env = |name: &str| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let proxy = proxy(None, &server.parse().unwrap(), &env).unwrap();
        proxy.map(|proxy| proxy.uri().to_string())
    }

    #[test]
    fn the_proxy_is_chosen_by_the_servers_scheme() {
        let both = [("HTTPS_PROXY", "http://s:1"), ("HTTP_PROXY", "http://h:1")];
        assert_eq!(chosen("https://x", &both).as_deref(), Some("http://s:1/"));
        assert_eq!(chosen("http://x", &both).as_deref(), Some("http://h:1/"));
        assert_eq!(chosen("https://x", &both[1..]), None);
        assert_eq!(chosen("https://x", &[("ALL_PROXY", "http://a:1")]), None, "not Go's");
        let lower = [("HTTPS_PROXY", ""), ("https_proxy", "http://l:1")];
        assert_eq!(chosen("https://x", &lower).as_deref(), Some("http://l:1/"));
    }

    #[test]
    fn no_proxy_is_read_as_go_reads_it() {
        for (server, exempt, direct) in [
            ("https://localhost", "", true),
            ("https://127.0.0.1:6443", "", true),
            ("https://[::1]:6443", "", true),
            ("https://10.0.0.1", "", false),
            ("https://10.0.0.1", "*", true),
            ("https://10.0.0.1", "10.0.0.1", true),
            ("https://10.0.0.2", "10.0.0.1", false),
            ("https://10.0.0.1:443", "10.0.0.1:443", true),
            ("https://10.0.0.1:6443", "10.0.0.1:443", false),
            ("https://10.1.2.3", "10.0.0.0/8", true),
            ("https://11.1.2.3", "10.0.0.0/8", false),
            ("https://10.1.2.3", "0.0.0.0/0", true),
            ("https://[fd00::1]", "fd00::/8", true),
            ("https://[fd00::1]", "[fd00::1]", true),
            ("https://[fd00::1]:6443", "[fd00::1]:443", false),
            ("https://hub.example.com", "example.com", true),
            ("https://example.com", "example.com", true),
            ("https://example.com", ".example.com", false),
            ("https://hub.example.com", ".example.com", true),
            ("https://hub.example.com", "*.example.com", true),
            ("https://badexample.com", "example.com", false),
            ("https://HUB.example.com", "other.org, EXAMPLE.com", true),
            ("https://hub.example.com:6443", "example.com:6443", true),
            ("https://hub.example.com", "example.com:6443", false),
            ("https://10.1.2.3", "10.0.0.0/99,junk/x,:,[", false),
        ] {
            let vars = [("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", exempt)];
            assert_eq!(chosen(server, &vars).is_none(), direct, "{server} with {exempt:?}");
        }
    }

    #[test]
    fn the_kubeconfigs_proxy_wins_and_ignores_no_proxy() {
        let env = |name: &str| (name == "NO_PROXY").then(|| "*".to_owned());
        let server = "https://hub".parse().unwrap();
        let proxy = proxy(Some("socks5://user:pw@p:1080"), &server, &env).unwrap().unwrap();
        assert_eq!(proxy.protocol(), ureq::ProxyProtocol::Socks5h, "names are the proxy's matter");
        let error = super::proxy(Some("::hunter2::"), &server, &env).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
