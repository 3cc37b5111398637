// Package program runs an agent as a process, in place of the one that Open Cluster Management's tests run in theirs.
package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/component-base/featuregate"
)

// Path of the program; empty for OCM's own agent.
var Path = os.Getenv("PROGRAM")

// Run returns when the program has ended, which is after SIGTERM once the context is done.
func Run(ctx context.Context, local *rest.Config, flags ...string) error {
	dir, err := os.MkdirTemp("", "program")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := writeKubeconfig(local, kubeconfig); err != nil {
		return err
	}
	// The kernel kills the program when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := exec.CommandContext(ctx, Path, append(flags, "-kubeconfig="+kubeconfig)...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 5 * time.Second
	err = command.Run()
	if stopped := ctx.Err() != nil; stopped && (command.ProcessState == nil || command.ProcessState.Success()) {
		return nil
	}
	// run.sh searches the logs for this.
	err = fmt.Errorf("upstream: %s ended by itself or after SIGTERM with: %v", filepath.Base(Path), err)
	fmt.Println(err)
	return err
}

// FeatureGates are the value of that flag for all features which the gate knows.
func FeatureGates(gate featuregate.MutableFeatureGate) string {
	var features []string
	for feature := range gate.GetAll() {
		if !strings.HasPrefix(string(feature), "All") {
			features = append(features, fmt.Sprintf("%s=%t", feature, gate.Enabled(feature)))
		}
	}
	return strings.Join(features, ",")
}

func writeKubeconfig(config *rest.Config, path string) error {
	local := clientcmdapi.NewConfig()
	local.Clusters["local"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	local.AuthInfos["local"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	local.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: "local"}
	local.CurrentContext = "local"
	return clientcmd.WriteToFile(*local, path)
}
