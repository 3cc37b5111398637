package spoke

import (
	"context"
	"fmt"
	"strings"

	"github.com/openshift/library-go/pkg/controller/controllercmd"

	ocmfeature "open-cluster-management.io/api/feature"

	"open-cluster-management.io/ocm/pkg/features"
	"open-cluster-management.io/ocm/test/program"
)

// RunSpokeAgent runs the program with the flags that say what the options say.
func (o *SpokeAgentConfig) RunSpokeAgent(ctx context.Context, controllerContext *controllercmd.ControllerContext) error {
	if program.Path == "" {
		return o.runInProcess(ctx, controllerContext)
	}
	// What kubelet would do: the tests start an agent again when this is called.
	defer o.agentStopFunc()
	agent, options := o.agentOptions, o.registrationOption
	driver := options.RegisterDriverOption
	flags := []string{
		"-v=2", "-metrics-port=0", "-listen=", "-disable-leader-election",
		"-namespace=" + agent.ComponentNamespace,
		"-spoke-cluster-name=" + agent.SpokeClusterName,
		"-hub-kubeconfig-secret=" + options.HubKubeconfigSecret,
		"-hub-kubeconfig-dir=" + agent.HubKubeconfigDir, "-write-files",
		"-feature-gates=" + program.FeatureGates(features.SpokeMutableFeatureGate),
		"-addon-kubeclient-registration-auth=" + driver.AddonKubeClientRegistrationAuth,
		fmt.Sprintf("-addon-token-expiration-seconds=%d", driver.TokenOption.ExpirationSeconds),
		fmt.Sprintf("-client-cert-expiration-seconds=%d", driver.CSROption.ExpirationSeconds),
		fmt.Sprintf("-cluster-healthcheck-period=%s", options.ClusterHealthCheckPeriod),
		fmt.Sprintf("-max-custom-cluster-claims=%d", options.MaxCustomClusterClaims),
	}
	if features.SpokeMutableFeatureGate.Enabled(ocmfeature.MultipleHubs) {
		flags = append(flags, "-bootstrap-kubeconfigs="+strings.Join(options.BootstrapKubeconfigs, ","),
			fmt.Sprintf("-hub-connection-timeout-seconds=%d", options.HubConnectionTimeoutSeconds))
	} else {
		flags = append(flags, "-bootstrap-kubeconfig="+options.BootstrapKubeconfig)
	}
	if agent.AgentID != "" {
		flags = append(flags, "-agent-id="+agent.AgentID)
	}
	if len(options.ReservedClusterClaimSuffixes) > 0 {
		flags = append(flags, "-reserved-cluster-claim-suffixes="+strings.Join(options.ReservedClusterClaimSuffixes, ","))
	}
	if len(options.SpokeExternalServerURLs) > 0 {
		flags = append(flags, "-spoke-external-server-urls="+strings.Join(options.SpokeExternalServerURLs, ","))
	}
	for key, value := range options.ClusterAnnotations {
		flags = append(flags, "-cluster-annotations="+key+"="+value)
	}
	return program.Run(ctx, controllerContext.KubeConfig, flags...)
}
