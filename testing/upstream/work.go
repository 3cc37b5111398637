package spoke

import (
	"context"
	"fmt"

	"github.com/openshift/library-go/pkg/controller/controllercmd"

	"open-cluster-management.io/ocm/pkg/features"
	"open-cluster-management.io/ocm/test/program"
)

// RunWorkloadAgent runs the program with the flags that say what the options say.
func (o *WorkAgentConfig) RunWorkloadAgent(ctx context.Context, controllerContext *controllercmd.ControllerContext) error {
	if program.Path == "" {
		return o.runInProcess(ctx, controllerContext)
	}
	agent, options := o.agentOptions, o.workOptions
	flags := []string{
		"agent", "-v=2", "-disable-leader-election", "-listen=", "-metrics-port=0",
		"-spoke-cluster-name=" + agent.SpokeClusterName,
		"-agent-id=" + agent.AgentID,
		"-workload-source-driver=" + options.WorkloadSourceDriver,
		"-workload-source-config=" + options.WorkloadSourceConfig,
		"-feature-gates=" + program.FeatureGates(features.SpokeMutableFeatureGate),
		fmt.Sprintf("-status-sync-interval=%s", options.StatusSyncInterval),
		fmt.Sprintf("-appliedmanifestwork-eviction-grace-period=%s", options.AppliedManifestWorkEvictionGracePeriod),
		fmt.Sprintf("-max-json-raw-length=%d", options.MaxJSONRawLength),
		fmt.Sprintf("-max-feedback-watch=%d", options.ObjectReaderOption.MaxFeedbackWatch),
	}
	return program.Run(ctx, controllerContext.KubeConfig, flags...)
}
