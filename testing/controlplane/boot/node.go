package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// The network of a run with a node, a namespace of its own: a bridge has all addresses. The managed cluster's is that of
// its Service "kubernetes", which pods thus reach without kube-proxy.
const (
	bridge         = "node0"
	gateway        = "10.88.0.1"
	podSubnet      = "10.88.0.0/16"
	managedAddress = "10.96.0.1"
	hubAddress     = "10.97.0.1"
)

const (
	nodeName         = "node1"
	containerdSocket = "/run/containerd/containerd.sock"
)

// kernelSettings are what the kubelet wants of the whole machine.
var kernelSettings = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0",
	"kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// furnish prepares the new namespaces. What anybody writes to /run, /var and the settings of the kernel stays in them.
func furnish() {
	check(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	check(syscall.Mount("proc", "/proc", "proc", 0, ""))
	check(syscall.Mount("tmpfs", "/run", "tmpfs", 0, ""))
	check(os.Mkdir("/run/upper", 0o755))
	check(os.Mkdir("/run/work", 0o755))
	check(syscall.Mount("overlay", "/var", "overlay", 0, "lowerdir=/var,upperdir=/run/upper,workdir=/run/work"))
	for name, value := range kernelSettings {
		file := filepath.Join("/run", filepath.Base(name))
		check(os.WriteFile(file, []byte(value), 0o600))
		check(syscall.Mount(file, filepath.Join("/proc/sys", name), "", syscall.MS_BIND, ""))
	}
	do("ip", "link", "set", "lo", "up")
	do("ip", "link", "add", bridge, "type", "bridge")
	for _, address := range []string{gateway + "/16", managedAddress + "/32", hubAddress + "/32"} {
		do("ip", "address", "add", address, "dev", bridge)
	}
	do("ip", "link", "set", bridge, "up")
}

// bootNode returns when the cluster has a Ready node with all images.
func (s *servers) bootNode(c *cluster) {
	check(os.Mkdir(c.path("cni"), 0o700))
	c.write("cni/bridge.conflist", toJSON(cniConfig))
	c.write("containerd.toml", containerdConfig(c))
	c.write("kubelet.json", toJSON(kubeletConfig(c)))

	s.start("kube-scheduler", c.dir, "--kubeconfig="+c.path("scheduler.kubeconfig"),
		"--leader-elect=false", "--secure-port=0")
	s.start("containerd", c.dir, "--config="+c.path("containerd.toml"))
	s.until("containerd", c, "answer", func() bool {
		return exec.Command("ctr", "--address", containerdSocket, "version").Run() == nil
	})
	importImages(s.assets)
	s.start("kubelet", c.dir, "--config="+c.path("kubelet.json"), "--kubeconfig="+c.path("kubelet.kubeconfig"),
		"--root-dir="+c.path("kubelet"), "--hostname-override="+nodeName, "--node-ip="+gateway)
	s.until("kubelet", c, "Ready node", func() bool {
		return exec.Command(filepath.Join(s.assets, "kubectl"), "--kubeconfig="+c.path("admin.kubeconfig"),
			"wait", "--for=condition=Ready", "node/"+nodeName, "--timeout=2s").Run() == nil
	})
}

var cniConfig = map[string]any{
	"cniVersion": "0.4.0", "name": "pods",
	"plugins": []any{map[string]any{
		"type": "bridge", "bridge": bridge,
		"ipam": map[string]any{
			"type":   "host-local",
			"ranges": []any{[]any{map[string]any{"subnet": podSubnet, "gateway": gateway}}},
			"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
		},
	}},
}

// containerdConfig allows for machines on which a process may not lower its oom_score_adj.
func containerdConfig(c *cluster) string {
	return fmt.Sprintf(`version = 2
root = %q
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %q
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = %q
`, c.path("containerd"), sleeper, c.path("cni"))
}

func kubeletConfig(c *cluster) any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": gateway, "healthzPort": 0, "resolvConf": "",
		// Nobody else is in its network.
		"authentication":           map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
		"authorization":            map[string]any{"mode": "AlwaysAllow"},
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"podLogsDir":               c.path("pods"), "volumePluginDir": c.path("volume-plugins"),
		// Below a group of its own, which boot removes.
		"cgroupDriver": "cgroupfs", "cgroupRoot": "/" + cgroupOf(filepath.Dir(c.dir)),
		"enforceNodeAllocatable": []string{}, "failCgroupV1": false, "failSwapOn": false,
		// The machine's settings, processes and disks are not its own.
		"protectKernelDefaults": true, "makeIPTablesUtilChains": false, "oomScoreAdj": 0,
		"imageGCHighThresholdPercent": 100, "evictionHard": map[string]string{"memory.available": "0%"},
	}
}

func toJSON(value any) string { return string(must(json.Marshal(value))) }

// do runs a program, whose output is for its failure alone.
func do(name string, args ...string) {
	if output, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		check(fmt.Errorf("%s %v: %v: %s", name, args, err, output))
	}
}
