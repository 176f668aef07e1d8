// Command controlplane builds etcd, kube-apiserver and kubectl from their Go modules. The go.mod and go.sum in this directory pin the versions and
// the checksums. Arguments select programs. The command builds kube-controller-manager only if an argument names it.
//
//	go run . -out ../../bin/controlplane
//	go run . -out ../../bin/controlplane kube-controller-manager
//
// It does nothing if binaries of these versions exist, or if KUBEBUILDER_ASSETS names another directory.
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
	"slices"
	"strings"
	"time"
)

// A target is a program of the control plane.
type target struct {
	name   string // name of the binary
	pkg    string // import path of the main package
	module string // module with the version of the program
	flags  string // linker flags, with %s for the version
	extra  bool   // built only if an argument names it
}

var targets = []target{
	{"etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "", false},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes", kubernetesFlags, false},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes", kubernetesFlags, false},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", "k8s.io/kubernetes", kubernetesFlags, true},
}

const kubernetesFlags = "-X k8s.io/component-base/version.gitVersion=%s"

func main() {
	out := flag.String("out", filepath.Join("..", "..", "bin", "controlplane"), "directory for the binaries")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func run(out string, names []string) error {
	wanted, err := selectTargets(names)
	if err != nil {
		return err
	}
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return checkAssets(dir, wanted)
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, t := range wanted {
		if err := ensure(out, t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// selectTargets returns the named programs. Without names, it returns the programs that all tests need.
func selectTargets(names []string) ([]target, error) {
	var wanted []target
	for _, t := range targets {
		if slices.Contains(names, t.name) || len(names) == 0 && !t.extra {
			wanted = append(wanted, t)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(targets, func(t target) bool { return t.name == name }) {
			return nil, fmt.Errorf("unknown program %q: use etcd, kube-apiserver, kubectl or kube-controller-manager", name)
		}
	}
	return wanted, nil
}

// checkAssets checks that the directory in KUBEBUILDER_ASSETS contains the requested optional programs.
func checkAssets(dir string, wanted []target) error {
	for _, t := range wanted {
		if _, err := os.Stat(filepath.Join(dir, t.name)); t.extra && err != nil {
			return fmt.Errorf("KUBEBUILDER_ASSETS is set, but the directory has no %s: add it, or unset the variable: %w", t.name, err)
		}
	}
	fmt.Println("control plane: KUBEBUILDER_ASSETS is set, nothing to build:", dir)
	return nil
}

// ensure builds a program unless a binary of its version exists. It writes the version to a file after the build, so that it repeats an
// interrupted build.
func ensure(out string, t target) error {
	version, err := goOutput("list", "-m", "-f", "{{.Version}}", t.module)
	if err != nil {
		return err
	}
	binary, stamp := filepath.Join(out, t.name), filepath.Join(out, t.name+".version")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == version {
		if _, err := os.Stat(binary); err == nil {
			fmt.Printf("control plane: %s %s exists: %s\n", t.name, version, binary)
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
		"(up to 4 minutes on two cores with an empty cache)\n",
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
	// go build -v prints the name of each package that is not cached.
	compiled, printed := 0, started
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
		if time.Since(printed) >= 10*time.Second {
			printed = time.Now()
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
