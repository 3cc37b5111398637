//! Keys and certificates.

// Generated once, valid for 100 years, with OpenSSL 3. The CA:
//   openssl ecparam -name prime256v1 -genkey -noout -out ca.key
//   openssl req -x509 -key ca.key -subj /CN=test-ca -days 36500 -out ca.crt
// `tls.key`, `other.key` and, with `secp521r1`, `p521.key`: like `ca.key`. The certificates, v1 without `-extfile`:
//   openssl req -new -key tls.key -subj /O=system:masters/CN=admin
//   openssl x509 -req -CA ca.crt -CAkey ca.key -days 36500 -extfile ext
// The other forms of the key:
//   openssl pkcs8 -topk8 -nocrypt
//   openssl pkcs8 -topk8
//   openssl ec -aes128

pub(crate) const CA: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBezCCASGgAwIBAgIURlbzRsD7x8h6uXprVeaAeHe08bYwCgYIKoZIzj0EAwIw\n\
EjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMjExMjM1MjJaGA8yMTI2MTAyODEy\n\
MzUyMlowEjEQMA4GA1UEAwwHdGVzdC1jYTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n\
A0IABM5vuTdMSeGRgRdOl+ULJZ7Ks/GRRippBMj6KXm0YAxfwPbLhO/3vY/XNzM4\n\
1mHPLqQcO6ehjRzvBmI/pqrn9DijUzBRMB0GA1UdDgQWBBTomshZb12TeqEc9CtR\n\
bxacMuZA1TAfBgNVHSMEGDAWgBTomshZb12TeqEc9CtRbxacMuZA1TAPBgNVHRMB\n\
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQDasZ1r96/YshEYYgfwuy/1o68S\n\
2SubfgRhV2Xy+h06xwIgCmEpNv4sud0d6Qlo2gr4ehIzowjb+4c02lldfXACx/4=\n\
-----END CERTIFICATE-----\n\
";
pub(crate) const CERT: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBjjCCATSgAwIBAgIBAjAKBggqhkjOPQQDAjASMRAwDgYDVQQDDAd0ZXN0LWNh\n\
MCAXDTI2MTEyMTEyMzUyMloYDzIxMjYxMDI4MTIzNTIyWjApMRcwFQYDVQQKDA5z\n\
eXN0ZW06bWFzdGVyczEOMAwGA1UEAwwFYWRtaW4wWTATBgcqhkjOPQIBBggqhkjO\n\
PQMBBwNCAAT/R1vKl5xLv3jKQErF1EoPoEcveF/m9GwbrRcPdp7KOfjMsOadbJXA\n\
GpPhKAnuNt0fCeBdmKlNDzLswnnB2rTgo2IwYDAJBgNVHRMEAjAAMBMGA1UdJQQM\n\
MAoGCCsGAQUFBwMCMB0GA1UdDgQWBBT2/C3yKci1ZjhPV3gpIJGd28cPbTAfBgNV\n\
HSMEGDAWgBTomshZb12TeqEc9CtRbxacMuZA1TAKBggqhkjOPQQDAgNIADBFAiEA\n\
rp2xFS5FTSOq6M6hozRaDcc1Ua4nrENOWWRdc0bQmKsCIBUJu6ZoNJzA7niQPgTb\n\
izZudQ0c6jMJog5SJ6QIvYIE\n\
-----END CERTIFICATE-----\n\
";
pub(crate) const CERT_V1: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBJDCBywIBAzAKBggqhkjOPQQDAjASMRAwDgYDVQQDDAd0ZXN0LWNhMCAXDTI2\n\
MTEyMTEyMzUyMloYDzIxMjYxMDI4MTIzNTIyWjApMRcwFQYDVQQKDA5zeXN0ZW06\n\
bWFzdGVyczEOMAwGA1UEAwwFYWRtaW4wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n\
AAT/R1vKl5xLv3jKQErF1EoPoEcveF/m9GwbrRcPdp7KOfjMsOadbJXAGpPhKAnu\n\
Nt0fCeBdmKlNDzLswnnB2rTgMAoGCCqGSM49BAMCA0gAMEUCIDFuFcaWEkJswgJA\n\
Pq4eK4NGc71tb8uRxkgDBMEv9bAsAiEAleA1JHu6ZUYeHQUg7WRcMxXthIjDsyyK\n\
f2ALt0me208=\n\
-----END CERTIFICATE-----\n\
";
pub(crate) const KEY: &str = "\
-----BEGIN EC PRIVATE KEY-----\n\
MHcCAQEEIDRcIJ/CqugqfmsX0fOspGom2z9GwyP906skvmFiOau7oAoGCCqGSM49\n\
AwEHoUQDQgAE/0dbypecS794ykBKxdRKD6BHL3hf5vRsG60XD3aeyjn4zLDmnWyV\n\
wBqT4SgJ7jbdHwngXZipTQ8y7MJ5wdq04A==\n\
-----END EC PRIVATE KEY-----\n\
";
pub(crate) const KEY_WITH_PARAMETERS: &str = "\
-----BEGIN EC PARAMETERS-----\n\
BggqhkjOPQMBBw==\n\
-----END EC PARAMETERS-----\n\
-----BEGIN EC PRIVATE KEY-----\n\
MHcCAQEEIDRcIJ/CqugqfmsX0fOspGom2z9GwyP906skvmFiOau7oAoGCCqGSM49\n\
AwEHoUQDQgAE/0dbypecS794ykBKxdRKD6BHL3hf5vRsG60XD3aeyjn4zLDmnWyV\n\
wBqT4SgJ7jbdHwngXZipTQ8y7MJ5wdq04A==\n\
-----END EC PRIVATE KEY-----\n\
";
pub(crate) const KEY_PKCS8: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgNFwgn8Kq6Cp+axfR\n\
86ykaibbP0bDI/3TqyS+YWI5q7uhRANCAAT/R1vKl5xLv3jKQErF1EoPoEcveF/m\n\
9GwbrRcPdp7KOfjMsOadbJXAGpPhKAnuNt0fCeBdmKlNDzLswnnB2rTg\n\
-----END PRIVATE KEY-----\n\
";
pub(crate) const KEY_ENCRYPTED: &str = "\
-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgzCTThEYNKJgICCAAw\n\
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEED6dcKJeUhLXRk4NYGMLeYUEgZCf\n\
JY6ckNsoSwrPxSPusV4zsJioNh3eABV2z48iaswHHdTKoLKHZfFIEQYbKX8/PA5w\n\
XeyGKM3VCzxXU0jJnwBWdFK/k4WW0PYxmRHAoHNyZBX5ULFcSdtO5dTXYlPmXYYo\n\
JgiouwsP+Nzy+7yZVjYPd3g0En52VULMaby5m2HJFYizbUlFjU4Rb7vT1owoj4o=\n\
-----END ENCRYPTED PRIVATE KEY-----\n\
";
pub(crate) const KEY_ENCRYPTED_OLD: &str = "\
-----BEGIN EC PRIVATE KEY-----\n\
Proc-Type: 4,ENCRYPTED\n\
DEK-Info: AES-128-CBC,BA71104EC0855915D44DF5DD181ABF57\n\
\n\
rEm4Iw9gxu4ik/O8ynklKyw7n8H5fy+U3bNcUUcfeouQJpBWmjwaPxVkG67sFiLi\n\
hMhcikgLzT5uvlnYUJQQQPaXhlCySpTI59JFkZDO6G7kmZDzE42LRpzDhS7sYkNi\n\
2BS7cvi6/KsqfW10xuTjoBg9fT+eMkqeGX2ESeGthEE=\n\
-----END EC PRIVATE KEY-----\n\
";
pub(crate) const KEY_OTHER: &str = "\
-----BEGIN EC PRIVATE KEY-----\n\
MHcCAQEEIBiEUFwhIwY/StgOZ4nt6RbUE7cnFdbBwj7TDwyYaYvEoAoGCCqGSM49\n\
AwEHoUQDQgAEO6LHyNhXXEthDdj/zCSiRG1o28zRSGLKue5U8d1HL1doPDKUOuEF\n\
Y2GexXzEVzhTiCLTRitfWswB042gorY/yA==\n\
-----END EC PRIVATE KEY-----\n\
";
pub(crate) const CERT_P521: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBtzCCAV2gAwIBAgIBBDAKBggqhkjOPQQDAjASMRAwDgYDVQQDDAd0ZXN0LWNh\n\
MCAXDTI2MTEyMTEyMzUyMloYDzIxMjYxMDI4MTIzNTIyWjAPMQ0wCwYDVQQDDARw\n\
NTIxMIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQArxZFx2Rjvv9ljuaChK+9nZ7h\n\
LstHbpFcTyLOR/wKSuI5PtoH3VnZ20QRafiFSppsTw2ofpDbSGuzE2WtW/4iteIB\n\
d7jHjROI3YY37zepCl1aK4aEJC0PIuJLHUAPeO69A2LmOBOgYVboG/Tth23dFR6Y\n\
H/sCt7+Ax8N5bIge9605sVajYjBgMAkGA1UdEwQCMAAwEwYDVR0lBAwwCgYIKwYB\n\
BQUHAwIwHQYDVR0OBBYEFFCNlASNlAfN39W/dS8cdsz6fNvnMB8GA1UdIwQYMBaA\n\
FOiayFlvXZN6oRz0K1FvFpwy5kDVMAoGCCqGSM49BAMCA0gAMEUCIA9uu6Mb8bTo\n\
WGqfctY4CJmMeCqAY7uujkOw+caYCif5AiEAqVHabKI2mfrU6KCI3LCskjvJ3DyG\n\
vhiQnT6nUDFhEJw=\n\
-----END CERTIFICATE-----\n\
";
pub(crate) const KEY_P521: &str = "\
-----BEGIN EC PRIVATE KEY-----\n\
MIHcAgEBBEIB7Wh0dPJxzpbIg2WT3ArdEiAh9bAPO5hEsehxM47mGo1DDxyJuR4a\n\
UID9X0uXjcEQFZn5gPwIkE0X8c/yv3Y25pigBwYFK4EEACOhgYkDgYYABACvFkXH\n\
ZGO+/2WO5oKEr72dnuEuy0dukVxPIs5H/ApK4jk+2gfdWdnbRBFp+IVKmmxPDah+\n\
kNtIa7MTZa1b/iK14gF3uMeNE4jdhjfvN6kKXVorhoQkLQ8i4ksdQA947r0DYuY4\n\
E6BhVugb9O2Hbd0VHpgf+wK3v4DHw3lsiB73rTmxVg==\n\
-----END EC PRIVATE KEY-----\n\
";
