//! The actions that the loop takes for the certificate, as the machine chooses them.

use std::time::Instant;

use super::csr_status::CsrFailure;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CertificateAction {
    /// Nothing before this instant, or before something changes.
    Wait(Instant),
    /// Use the hub with the credential in the Secret.
    OpenSession,
    /// The same, where another one is in use.
    SwapSession,
    /// Stop using the hub: the certificate has expired.
    CloseSession,
    /// Say that the hub is used.
    AnnounceSession,
    /// Say why a certificate is needed.
    AnnounceNeed,
    /// Close what is open on the hub for a certificate.
    CloseRequester,
    /// Watch the CSR on the hub.
    WatchCsr,
    /// Say for whom the CSR waits, and aloud when that takes long.
    AnnouncePending { overdue: bool },
    /// Count the requests that wait on the hub already.
    CountPending,
    /// Make a key and a request, and store them.
    StoreRequest,
    /// Make the ManagedCluster, if there is none.
    CreateManagedCluster,
    /// Read the CSR on the hub.
    GetCsr,
    /// Post the request.
    CreateCsr,
    /// The CSR that was there is not any more: make sure, and post the same again.
    ConfirmGone,
    /// Put this certificate into the Secret.
    SaveCertificate(Vec<u8>),
    /// Put right what is beside the certificate.
    RepairSecret,
    /// Remove the stored request: it has served, or never will.
    DeleteRequest,
    /// The request came to this end: say so, and rest.
    AbandonCsr(CsrFailure),
}

impl CertificateAction {
    /// Whether it is the hub that has to answer.
    pub(crate) fn is_on_the_hub(&self) -> bool {
        matches!(
            self,
            Self::CountPending
                | Self::CreateManagedCluster
                | Self::GetCsr
                | Self::CreateCsr
                | Self::ConfirmGone
        )
    }

    /// Whether it only prepares the next one, which follows in the same turn.
    pub(crate) fn is_preparation(&self) -> bool {
        matches!(
            self,
            Self::OpenSession
                | Self::SwapSession
                | Self::CloseSession
                | Self::AnnounceSession
                | Self::AnnounceNeed
                | Self::CloseRequester
                | Self::WatchCsr
                | Self::AnnouncePending { .. }
        )
    }
}
