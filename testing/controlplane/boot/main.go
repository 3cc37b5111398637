// Boot runs a command with two real control planes, "hub" and "managed". Each
// has a kube-apiserver and a kube-controller-manager; they share one etcd.
// With NODE set, managed has a node that runs pods, too.
// Everything that boot starts, and everything that the command leaves behind, is
// gone when boot exits.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		say("usage: run.sh COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	// Pdeathsig watches the thread that started a process, not the process:
	// a locked thread lives as long as this goroutine.
	runtime.LockOSThread()
	if dir := os.Getenv(inside); dir != "" {
		os.Exit(run(dir, os.Args[1:]))
	}
	dir, err := os.MkdirTemp("", "spoke-e2e-")
	if err != nil {
		say("%v", err)
		os.Exit(1)
	}
	start := run
	if os.Getenv("NODE") != "" {
		start = isolated
	}
	code := start(dir, os.Args[1:])
	if os.Getenv("KEEP") == "1" {
		say("kept %s", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		say("%v", err)
	}
	os.Exit(code)
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "controlplane: "+format+"\n", args...)
}

// ending is the reason why a run ends before the command, with the exit code.
type ending struct {
	code int
	why  string
}

func (e ending) Error() string { return e.why }

// must ends the run on an error. It panics, so that run still cleans up.
func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if e := (ending{}); errors.As(err, &e) {
		panic(e)
	} else if err != nil {
		panic(ending{1, err.Error()})
	}
}

// run returns the exit code of the command, or of the ending that came first. Its files are in dir.
func run(dir string, command []string) (code int) {
	adoptOrphans()
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		received := (<-signals).(syscall.Signal)
		stop(ending{128 + int(received), "stopped: " + received.String()})
	}()
	defer func() {
		if panicked := recover(); panicked != nil {
			e, ok := panicked.(ending)
			if !ok {
				panic(panicked)
			}
			say("%s", e.why)
			code = e.code
		}
	}()
	// A live process could write to the directory again.
	defer killDescendants()

	start := time.Now()
	servers := servers{ctx, stop, filepath.Dir(must(os.Executable()))}
	servers.boot(dir)
	say("hub and managed are ready after %.1f s in %s", time.Since(start).Seconds(), dir)

	check(os.Setenv("PATH", servers.assets+":"+os.Getenv("PATH")))
	check(os.Setenv("E2E_DIR", dir))
	check(os.Setenv("E2E_ASSETS", servers.assets))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	// A signal or a dead server explains more than the failure that it caused.
	check(context.Cause(ctx))
	if cmd.ProcessState == nil {
		check(err)
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// servers starts the programs in assets; the first one that exits calls stop.
type servers struct {
	ctx    context.Context
	stop   context.CancelCauseFunc
	assets string
}

// boot returns when both control planes accept pods.
func (s *servers) boot(dir string) {
	node := os.Getenv("NODE") != ""
	if node {
		furnish()
	}
	ports := freePorts(4)
	etcd, peers := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	s.start("etcd", dir,
		"--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers,
		"--initial-cluster=default="+peers)
	// kubeadm creates RSA keys, k3s ECDSA: the tests cover both.
	clusters := []*cluster{
		newCluster("hub", filepath.Join(dir, "hub"), address(node, hubAddress, ports[2]), newRSAKey),
		newCluster("managed", filepath.Join(dir, "managed"), address(node, managedAddress, ports[3]), newECDSAKey),
	}
	minor := s.minor()
	for _, c := range clusters {
		s.start("kube-apiserver", c.dir, c.apiserverFlags(etcd, minor)...)
	}
	for _, c := range clusters {
		s.await("kube-apiserver", c, "/readyz")
		// Not earlier: it exits if it finds no API server for ten seconds.
		s.start("kube-controller-manager", c.dir, c.controllerManagerFlags()...)
	}
	for _, c := range clusters {
		s.await("kube-controller-manager", c, "/api/v1/namespaces/default/serviceaccounts/default")
	}
	if node {
		s.bootNode(clusters[1])
	}
}

// address is where an API server listens: pods do not reach loopback.
func address(node bool, ofNode, port string) string {
	if node {
		return net.JoinHostPort(ofNode, "443")
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// minor is the minor version of the API servers.
func (s *servers) minor() (minor int) {
	version := must(exec.Command(filepath.Join(s.assets, "kube-apiserver"), "--version").Output())
	must(fmt.Sscanf(string(version), "Kubernetes v1.%d", &minor))
	return minor
}

func (s *servers) start(name, dir string, args ...string) {
	log := must(os.Create(filepath.Join(dir, name+".log")))
	defer log.Close()
	program := filepath.Join(s.assets, name)
	if _, err := os.Stat(program); err != nil {
		program = name // One of the machine's.
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	// Setpgid: Ctrl-C is for the command, which may still need the servers.
	// Pdeathsig: they end even if boot gets SIGKILL.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	check(cmd.Start())
	go func() {
		cmd.Wait() // An error would only repeat the state.
		s.stop(withLog(log.Name(), fmt.Sprintf("%s ended (%v)", name, cmd.ProcessState)))
	}()
}

// await polls the path until it returns 200; on a timeout it blames the named server.
func (s *servers) await(name string, c *cluster, path string) {
	s.until(name, c, path, func() bool { return c.answers(path) })
}

// until polls what the named server has to bring about.
func (s *servers) until(name string, c *cluster, what string, holds func() bool) {
	const patience = 2 * time.Minute
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		check(context.Cause(s.ctx))
		if time.Now().After(deadline) {
			check(withLog(c.path(name+".log"), fmt.Sprintf("%s: no %s after %s", c.name, what, patience)))
		}
	}
}

// withLog appends the end of a log, because the file itself is about to be removed.
func withLog(file, why string) error {
	text, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	tail := lines[max(0, len(lines)-20):]
	return ending{1, fmt.Sprintf("%s; the end of %s:\n%s", why, file, strings.Join(tail, "\n"))}
}

// freePorts holds all ports before it releases them, so that they differ.
func freePorts(n int) (ports []string) {
	for range n {
		listener := must(net.Listen("tcp", "127.0.0.1:0"))
		defer listener.Close()
		ports = append(ports, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	}
	return ports
}

// adoptOrphans makes this process the parent of every orphaned descendant, so
// that killDescendants finds it.
func adoptOrphans() {
	const prSetChildSubreaper = 36 // Not in package syscall.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		say("processes may stay behind: %v", errno)
	}
}

// killDescendants uses SIGKILL: none of their data outlives this run.
func killDescendants() {
	for {
		var pids []string
		lists, _ := filepath.Glob("/proc/self/task/*/children")
		for _, list := range lists {
			text, _ := os.ReadFile(list) // A thread may be gone by now.
			pids = append(pids, strings.Fields(string(text))...)
		}
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			child := must(strconv.Atoi(pid))
			syscall.Kill(child, syscall.SIGKILL)
			syscall.Wait4(child, nil, 0, nil)
		}
	}
}
