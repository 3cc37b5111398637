package registration_test

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

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
