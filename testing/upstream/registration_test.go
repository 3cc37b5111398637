package registration_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/ocm/test/integration/util"
)

// filledOrRejected returns an empty Secret after the Event that refuses a certificate.
func filledOrRejected(client kubernetes.Interface, namespace, name string) (*corev1.Secret, error) {
	events, err := client.CoreV1().Events("").List(context.TODO(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, event := range events.Items {
		if event.Reason == "CertificateRejected" && strings.Contains(event.InvolvedObject.Name+event.Message, name) {
			return &corev1.Secret{}, nil
		}
	}
	return util.GetFilledHubKubeConfigSecret(client, namespace, name)
}

func findUnsignedCSR(client kubernetes.Interface, cluster string) (*certificates.CertificateSigningRequest, error) {
	selector := metav1.ListOptions{LabelSelector: clusterv1.ClusterNameLabelKey + "=" + cluster}
	requests, err := client.CertificatesV1().CertificateSigningRequests().List(context.TODO(), selector)
	if err != nil {
		return nil, err
	}
	for _, request := range requests.Items {
		if len(request.Status.Certificate) == 0 {
			return &request, nil
		}
	}
	return nil, fmt.Errorf("no unsigned CSR of %q", cluster)
}

// signCSR signs, and approves if the hub has not.
func signCSR(client kubernetes.Interface, cluster string, age time.Duration) error {
	request, err := findUnsignedCSR(client, cluster)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	if len(request.Status.Conditions) == 0 {
		return authn.ApproveCSR(client, request, now, now.Add(age))
	}
	return authn.FillCertificateToApprovedCSR(client, request, now, now.Add(age))
}
