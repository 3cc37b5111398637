package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// inside names the directory to the process that has the namespaces.
const inside = "SPOKE_E2E_INSIDE"

// isolated is run in namespaces of its own. Whatever happens, processes, mounts, addresses and routes end with them; only
// the cgroups do not.
func isolated(dir string, command []string) int {
	cmd := exec.Command("/proc/self/exe", command...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	for _, group := range groups(cgroupOf(dir)) {
		if err := os.Mkdir(group, 0o755); err != nil {
			say("NODE needs root: %v", err)
			return 1
		}
	}
	defer removeCgroups(cgroupOf(dir))
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		say("%v", err)
		return 1
	}
	go func() {
		for received := range signals {
			cmd.Process.Signal(received)
		}
	}()
	cmd.Wait() // An error would only repeat the state.
	if cmd.ProcessState.Exited() {
		return cmd.ProcessState.ExitCode()
	}
	say("%v", cmd.ProcessState)
	return 1
}

// cgroupOf is the group of all pods, in each hierarchy.
func cgroupOf(dir string) string { return filepath.Base(dir) }

// groups are where a group is, in one hierarchy or in each of several.
func groups(name string) []string {
	hierarchies, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		hierarchies = []string{"/sys/fs/cgroup/cgroup.procs"}
	}
	for i, procs := range hierarchies {
		hierarchies[i] = filepath.Join(filepath.Dir(procs), name)
	}
	return hierarchies
}

func removeCgroups(name string) {
	for _, top := range groups(name) {
		var all []string
		filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for i := len(all) - 1; i >= 0; i-- {
			if err := os.Remove(all[i]); err != nil {
				say("%v", err)
			}
		}
	}
}
