// Command controlplane builds etcd and kube-apiserver, the real ones, from the Go module
// proxy: the versions stand in this folder's go.mod, their checksums in go.sum.
//
//	go run . -out ../../bin/controlplane
//
// It does nothing when the binaries of these versions are in the folder already, or when
// KUBEBUILDER_ASSETS names a folder to use instead.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A target is one program of the control plane.
type target struct {
	name   string // of the binary, as envtest looks for it
	pkg    string // of its main package
	module string // whose version is the program's
	flags  string // for the linker, with %s for the version
}

var targets = []target{
	{"etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", ""},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes",
		"-X k8s.io/component-base/version.gitVersion=%s"},
}

func main() {
	out := flag.String("out", filepath.Join("..", "..", "bin", "controlplane"), "folder for the binaries")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		fmt.Println("control plane: KUBEBUILDER_ASSETS is set, nothing to build:", dir)
		return nil
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, t := range targets {
		if err := ensure(out, t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// ensure builds one program unless its binary of this very version is there. The version is
// kept beside the binary and written last, so that an interrupted build is built again.
func ensure(out string, t target) error {
	version, err := goOutput("list", "-m", "-f", "{{.Version}}", t.module)
	if err != nil {
		return err
	}
	binary, stamp := filepath.Join(out, t.name), filepath.Join(out, t.name+".version")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == version {
		if _, err := os.Stat(binary); err == nil {
			fmt.Printf("control plane: %s %s is there: %s\n", t.name, version, binary)
			return nil
		}
	}
	if err := os.Remove(stamp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := build(binary, version, t); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(version), 0o644)
}

func build(binary, version string, t target) error {
	fmt.Printf("control plane: building %s %s from its Go modules on %d cores "+
		"(kube-apiserver from nothing takes about 4 minutes on two cores; afterwards it is cached)\n",
		t.name, version, runtime.NumCPU())
	deps, err := goOutput("list", "-deps", t.pkg)
	if err != nil {
		return err
	}
	total := len(strings.Fields(deps))

	flags := "-s -w"
	if t.flags != "" {
		flags += " " + fmt.Sprintf(t.flags, version)
	}
	cmd := exec.Command("go", "build", "-v", "-trimpath", "-ldflags", flags, "-o", binary, t.pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	// go build -v names a package when it begins to compile it, and cached ones never.
	compiled, said := 0, started
	var complaints []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		line := lines.Text()
		if strings.ContainsAny(line, " \t:") {
			if !strings.HasPrefix(line, "go: downloading") {
				complaints = append(complaints, line)
			}
			continue
		}
		compiled++
		if time.Since(said) >= 10*time.Second {
			said = time.Now()
			fmt.Printf("control plane:   %s: %d of at most %d packages compiled, %s\n",
				t.name, compiled, total, time.Since(started).Round(time.Second))
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, strings.Join(complaints, "\n"))
	}
	fmt.Printf("control plane: %s %s built in %s (%d packages compiled): %s\n",
		t.name, version, time.Since(started).Round(time.Second), compiled, binary)
	return nil
}

func goOutput(args ...string) (string, error) {
	out, err := exec.Command("go", args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
