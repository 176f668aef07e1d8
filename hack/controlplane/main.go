// Command controlplane builds etcd, kube-apiserver and kubectl from their Go modules. The go.mod and go.sum in this directory pin the versions and
// the checksums. Arguments select programs. The command builds kube-controller-manager only if an argument names it.
//
//	go run . -out ../../bin/controlplane
//	go run . -out ../../bin/controlplane kube-controller-manager
//	go run . -kubernetes 1.35 -out ../../bin/controlplane-1.35
//
// With -kubernetes, it builds the programs of another release of Kubernetes in a module that it generates in the output directory. The checksum database of Go
// then verifies the modules.
//
// It builds nothing if binaries of these versions exist, or if KUBEBUILDER_ASSETS names another directory.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
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
	dir    string // directory of the module that requires the program; empty for the current directory
}

var targets = []target{
	{"etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "", false, ""},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes", kubernetesFlags, false, ""},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes", kubernetesFlags, false, ""},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", "k8s.io/kubernetes", kubernetesFlags, true, ""},
}

const kubernetesModule = "k8s.io/kubernetes"

const kubernetesFlags = "-X k8s.io/component-base/version.gitVersion=%s"

func main() {
	out := flag.String("out", filepath.Join("..", "..", "bin", "controlplane"), "directory for the binaries")
	kubernetes := flag.String("kubernetes", "", "minor `release` of Kubernetes, such as 1.35 (default: the release in go.mod)")
	flag.Parse()
	if err := run(*out, *kubernetes, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

// releases are the patch releases of the tested minor releases of Kubernetes.
var releases = map[string]string{"1.34": "v1.34.9", "1.35": "v1.35.6", "1.36": "v1.36.4", "1.37": "v1.37.2"}

func run(out, kubernetes string, names []string) error {
	release, known := releases[kubernetes]
	if kubernetes != "" && !known {
		return fmt.Errorf("unknown release %q: use one of %s", kubernetes, strings.Join(slices.Sorted(maps.Keys(releases)), ", "))
	}
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
	if release != "" {
		module := filepath.Join(out, "module")
		if err := generateModule(module, release); err != nil {
			return fmt.Errorf("a module for Kubernetes %s: %w", release, err)
		}
		for i := range wanted {
			if wanted[i].module == kubernetesModule {
				wanted[i].dir = module
			}
		}
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
	version, err := goOutput(t.dir, "list", "-m", "-f", "{{.Version}}", t.module)
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
	deps, err := goOutput(t.dir, "list", "-deps", t.pkg)
	if err != nil {
		return err
	}
	total := len(strings.Fields(deps))

	flags := "-s -w"
	if t.flags != "" {
		flags += " " + fmt.Sprintf(t.flags, version)
	}
	cmd := goCommand(t.dir, "build", "-v", "-trimpath", "-ldflags", flags, "-o", binary, t.pkg)
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
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

// goCommand returns a go command in the directory of a module. In a generated module, the command completes go.mod and go.sum.
func goCommand(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, os.Environ()
	if dir != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS=-mod=mod", "GOWORK=off")
	}
	return cmd
}

func goOutput(dir string, args ...string) (string, error) {
	out, err := goCommand(dir, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// generateModule writes a module that requires a release of Kubernetes, unless the module exists. Kubernetes replaces its
// staging modules by directories of its repository. These directories do not exist in the module cache, so the generated module
// replaces the staging modules by their published versions.
func generateModule(dir, release string) error {
	file := filepath.Join(dir, "go.mod")
	if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), kubernetesModule+" "+release) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var downloaded struct{ GoMod string }
	if err := goJSON(&downloaded, "mod", "download", "-json", kubernetesModule+"@"+release); err != nil {
		return err
	}
	var kubernetes struct {
		Go      string
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := goJSON(&kubernetes, "mod", "edit", "-json", downloaded.GoMod); err != nil {
		return err
	}
	staging := "v0" + strings.TrimPrefix(release, "v1")
	lines := []string{"module controlplane", "go " + cmp.Or(kubernetes.Go, "1.24.0"), "require " + kubernetesModule + " " + release}
	for _, r := range kubernetes.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/") {
			lines = append(lines, fmt.Sprintf("replace %s => %s %s", r.Old.Path, r.Old.Path, published(r.Old.Path, staging)))
		}
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// published returns the version of a staging module if this version is published. Otherwise, it returns the latest published
// version of the same minor release. If no version is published, it returns the version, and the build fails if it needs the
// module.
func published(module, version string) string {
	if _, err := goOutput("", "mod", "download", module+"@"+version); err == nil {
		return version
	}
	versions, err := goOutput("", "list", "-m", "-versions", module)
	if err != nil {
		return version
	}
	minor, found := version[:strings.LastIndex(version, ".")+1], version
	for one := range strings.FieldsSeq(versions) { // in ascending order
		if strings.HasPrefix(one, minor) && !strings.Contains(one, "-") {
			found = one
		}
	}
	fmt.Printf("control plane: %s %s is not published, using %s\n", module, version, found)
	return found
}

func goJSON(into any, args ...string) error {
	text, err := goOutput("", args...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}
