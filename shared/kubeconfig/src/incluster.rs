//! Service account of the pod as a configuration (client-go rest/config.go:546-583).

use std::ffi::OsString;

use crate::{
    Env,
    cluster::{bundle, server_url},
    config::{Auth, ClusterConfig, Trust},
    error::{ConfigError, Result},
    files::read_limited,
    user::file_token,
};

pub fn in_cluster(env: &Env<'_>) -> Result<ClusterConfig> {
    let server = server(env)?;
    let token = env.service_account.join("token");
    let unusable = |what: &str| fail(&format!("{} {what}", token.display()));
    let bytes = read_limited(&token);
    let bytes = bytes.map_err(|error| unusable(&format!("cannot be read: {error}")))?;
    let first = file_token(&bytes).ok_or_else(|| unusable("holds no usable token"))?;
    Ok(ClusterConfig {
        server,
        trust: trust(env)?,
        server_name: None,
        identity: None,
        auth: Auth::Token(first),
        proxy: None,
        namespace: namespace(env),
    })
}

fn server(env: &Env<'_>) -> Result<String> {
    let text = |name| env.get(name).map(OsString::into_string);
    let (Some(Ok(host)), Some(Ok(port))) =
        (text("KUBERNETES_SERVICE_HOST"), text("KUBERNETES_SERVICE_PORT"))
    else {
        return Err(fail("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set"));
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    server_url(&format!("https://{host}:{port}")).ok_or_else(|| {
        fail("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not a valid address")
    })
}

fn trust(env: &Env<'_>) -> Result<Trust> {
    let path = env.service_account.join("ca.crt");
    let trust = read_limited(&path).ok().and_then(bundle);
    trust.ok_or_else(|| fail(&format!("{} holds no certificate", path.display())))
}

/// clientcmd/client_config.go:646-661.
pub(crate) fn namespace(env: &Env<'_>) -> Option<String> {
    let given = env.get("POD_NAMESPACE").and_then(|name| name.into_string().ok());
    given.or_else(|| {
        let bytes = read_limited(&env.service_account.join("namespace")).ok()?;
        let name = str::from_utf8(&bytes).ok()?.trim();
        (!name.is_empty()).then(|| name.to_owned())
    })
}

fn fail(what: &str) -> ConfigError {
    ConfigError::from(format!("no in-cluster configuration: {what}"))
}
