package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// sleeper is the image of all containers that only have to be there; as the sandbox of each pod, too.
const sleeper = "docker.io/library/busybox:1.37"

// image is a file system of one layer.
type image struct {
	tags       []string
	user       string
	path       string
	entrypoint []string
	files      map[string]string // By their place in the image.
	links      map[string]string
}

// importImages gives the node each image that a manifest of this repository or a test names.
func importImages(assets string) {
	programs := os.Getenv("BIN_DIR")
	ours := image{
		tags: []string{"docker.io/library/spoke-sidecars:dev"}, user: "65532:65532", path: "/usr/local/bin",
		files: map[string]string{},
		// As .ci/release/roots.sh has them.
		links: map[string]string{
			"usr/local/bin/klusterlet-addon-lease-controller": "addon-lease-controller",
			"registration":          "usr/local/bin/csr-bootstrapper",
			"registration-operator": "usr/local/bin/klusterlet-agent",
			"work":                  "usr/local/bin/klusterlet-agent",
		},
	}
	for _, name := range []string{"addon-lease-controller", "csr-bootstrapper", "hub-kubeconfig-dumper", "klusterlet-agent", "remote-sync"} {
		ours.files["usr/local/bin/"+name] = filepath.Join(programs, name)
	}
	busybox := image{
		tags: []string{sleeper, "registry.k8s.io/pause:3.10"},
		path: "/bin", entrypoint: []string{"/bin/sh", "-c", "trap exit TERM; sleep 2147483647 & wait"},
		files: map[string]string{"bin/busybox": must(exec.LookPath("busybox"))},
		links: map[string]string{},
	}
	for _, applet := range []string{"cat", "ls", "sh", "sleep", "true"} {
		busybox.links["bin/"+applet] = "busybox"
	}
	agents := busybox
	agents.user = "65532:65532"
	agents.tags = []string{"example.com/my-addon:1.0.0", "registry.example.com/my-agent:1.0.0",
		"registry.example.com/app:1", "registry.example.com/second:1"}
	prepare := busybox
	prepare.tags, prepare.entrypoint = []string{"registry.example.com/prepare:1"}, []string{"/bin/true"}
	images := []image{ours, busybox, agents, prepare}
	for _, name := range []string{"registration", "registration-operator", "work"} {
		images = append(images, image{
			tags: []string{"quay.io/open-cluster-management/" + name + ":dev"}, user: "10001:10001", path: "/",
			files: map[string]string{name: filepath.Join(assets, name)},
		})
	}
	for _, image := range images {
		cmd := exec.Command("ctr", "--address", containerdSocket, "-n", "k8s.io", "images", "import",
			"--snapshotter", "native", "-")
		cmd.Stdin = bytes.NewReader(image.archive())
		if output, err := cmd.CombinedOutput(); err != nil {
			check(fmt.Errorf("%v: %v: %s", image.tags, err, output))
		}
	}
}

// archive is the image as `docker save` writes it.
func (i image) archive() []byte {
	layer := newArchive()
	for name, file := range i.files {
		layer.add(name, 0o755, must(os.ReadFile(file)))
	}
	for name, target := range i.links {
		check(layer.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}))
	}
	content := layer.bytes()
	config := toJSON(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH,
		"config": map[string]any{"User": i.user, "Env": []string{"PATH=" + i.path}, "Entrypoint": i.entrypoint},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(content))}},
	})
	whole := newArchive()
	whole.add("config.json", 0o644, []byte(config))
	whole.add("layer.tar", 0o644, content)
	whole.add("manifest.json", 0o644, []byte(toJSON([]any{map[string]any{
		"Config": "config.json", "Layers": []string{"layer.tar"}, "RepoTags": i.tags,
	}})))
	return whole.bytes()
}

// archive is a tar file in memory.
type archive struct {
	*tar.Writer
	buffer *bytes.Buffer
}

func newArchive() archive {
	buffer := new(bytes.Buffer)
	return archive{tar.NewWriter(buffer), buffer}
}

func (a archive) add(name string, mode int64, content []byte) {
	check(a.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}))
	must(a.Write(content))
}

func (a archive) bytes() []byte {
	check(a.Close())
	return a.buffer.Bytes()
}
