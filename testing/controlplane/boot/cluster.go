package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// auditPolicy logs one line for each answered request and each started watch:
// the user, the verb, the object and the result; of a write what was sent too. Secrets
// and tokens are recorded whole, for the search of all outputs for them.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  resources:
  - group: coordination.k8s.io
    resources: [leases]
- level: RequestResponse
  verbs: [create, update, patch]
  resources:
  - group: ""
    resources: [secrets, serviceaccounts/token]
- level: Request
  verbs: [create, update, patch, delete]
- level: Metadata
`

// controllers are those that have an effect without nodes, and nodeControllers the others that pods need.
const controllers = "namespace-controller,serviceaccount-controller,serviceaccount-token-controller," +
	"root-ca-certificate-publisher-controller,clusterrole-aggregation-controller,garbage-collector-controller," +
	"certificatesigningrequest-signing-controller,certificatesigningrequest-approving-controller," +
	"certificatesigningrequest-cleaner-controller"
const nodeControllers = ",deployment-controller,replicaset-controller,node-lifecycle-controller"

// cluster is the directory of one control plane, whose CA issues all its certificates.
type cluster struct {
	name, dir, address string
	newKey             func() crypto.Signer
	ca                 *x509.Certificate
	caKey              crypto.Signer
	admin              *http.Client
}

func newRSAKey() crypto.Signer   { return must(rsa.GenerateKey(rand.Reader, 2048)) }
func newECDSAKey() crypto.Signer { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

// newCluster writes every file that the servers and clients read.
func newCluster(name, dir, address string, newKey func() crypto.Signer) *cluster {
	c := &cluster{name: name, dir: dir, address: address, newKey: newKey, caKey: newKey()}
	check(os.Mkdir(dir, 0o700))
	c.write("server.url", c.url()) // No newline, so that it can be used verbatim.
	c.write("audit-policy.yaml", auditPolicy)
	tokens := newKey()
	c.write("sa.key", keyPEM(tokens))
	c.write("sa.pub", toPEM("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(tokens.Public()))))

	c.ca = c.sign(c.caKey, &x509.Certificate{
		Subject: pkix.Name{CommonName: name + "-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
	c.write("ca.crt", certPEM(c.ca))
	c.write("ca.key", keyPEM(c.caKey))

	host, _, err := net.SplitHostPort(address)
	check(err)
	key := newKey()
	c.write("apiserver.key", keyPEM(key))
	c.write("apiserver.crt", certPEM(c.sign(key, &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1), net.ParseIP(host)},
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local"},
	})))

	c.client("controller-manager.kubeconfig", pkix.Name{CommonName: "system:kube-controller-manager"})
	c.client("scheduler.kubeconfig", pkix.Name{CommonName: "system:kube-scheduler"})
	c.client("kubelet.kubeconfig",
		pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}})
	admin := c.client("admin.kubeconfig", pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}})
	roots := x509.NewCertPool()
	roots.AddCert(c.ca)
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{admin}}
	c.admin = &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 5 * time.Second}
	return c
}

func (c *cluster) url() string             { return "https://" + c.address }
func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }
func (c *cluster) write(name, text string) { check(os.WriteFile(c.path(name), []byte(text), 0o600)) }

func (c *cluster) apiserverFlags(etcd string, minor int) []string {
	host, port, _ := net.SplitHostPort(c.address)
	flags := []string{
		"--etcd-servers=" + etcd, "--etcd-prefix=/" + c.name,
		"--bind-address=" + host, "--secure-port=" + port,
		// The endpoints of the Service "kubernetes" must not be on loopback, so there are none.
		"--advertise-address=" + host, "--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--kubelet-preferred-address-types=InternalIP",
		"--tls-cert-file=" + c.path("apiserver.crt"), "--tls-private-key-file=" + c.path("apiserver.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.path("sa.pub"), "--service-account-signing-key-file=" + c.path("sa.key"),
		"--audit-policy-file=" + c.path("audit-policy.yaml"), "--audit-log-path=" + c.path("audit.log"),
	}
	// The suite confines OCM's controllers with an admission policy, which is on by itself as of 1.30.
	if minor < 30 {
		flags = append(flags, "--feature-gates=ValidatingAdmissionPolicy=true",
			"--runtime-config=admissionregistration.k8s.io/v1beta1=true")
	}
	return flags
}

func (c *cluster) controllerManagerFlags() []string {
	duration := os.Getenv("CLUSTER_SIGNING_DURATION")
	if duration == "" {
		duration = "1h"
	}
	controllers := controllers
	if os.Getenv("NODE") != "" {
		controllers += nodeControllers
	}
	return []string{
		"--kubeconfig=" + c.path("controller-manager.kubeconfig"),
		"--secure-port=0", "--leader-elect=false",
		"--controllers=" + controllers, "--use-service-account-credentials",
		"--root-ca-file=" + c.path("ca.crt"), "--service-account-private-key-file=" + c.path("sa.key"),
		"--cluster-signing-cert-file=" + c.path("ca.crt"), "--cluster-signing-key-file=" + c.path("ca.key"),
		"--cluster-signing-duration=" + duration,
	}
}

// answers reports whether the administrator gets 200 for the path.
func (c *cluster) answers(path string) bool {
	response, err := c.admin.Get(c.url() + path)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// client writes a kubeconfig for a user with a client certificate.
func (c *cluster) client(name string, user pkix.Name) tls.Certificate {
	key := c.newKey()
	certificate := c.sign(key, &x509.Certificate{
		Subject: user, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	c.write(name, fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: %[1]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[2]s
clusters:
- name: %[1]s
  cluster:
    server: %[3]s
    certificate-authority-data: %[4]s
users:
- name: %[2]s
  user:
    client-certificate-data: %[5]s
    client-key-data: %[6]s
`, c.name, user.CommonName, c.url(), data(certPEM(c.ca)), data(certPEM(certificate)), data(keyPEM(key))))
	return tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}
}

// sign issues a certificate; without a CA yet, the CA's own, self-signed.
func (c *cluster) sign(key crypto.Signer, template *x509.Certificate) *x509.Certificate {
	template.SerialNumber = must(rand.Int(rand.Reader, big.NewInt(1<<62)))
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().AddDate(1, 0, 0)
	issuer := c.ca
	if issuer == nil {
		issuer = template
	}
	der := must(x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), c.caKey))
	return must(x509.ParseCertificate(der))
}

func certPEM(certificate *x509.Certificate) string { return toPEM("CERTIFICATE", certificate.Raw) }

func keyPEM(key crypto.Signer) string {
	return toPEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key)))
}

func toPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func data(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
