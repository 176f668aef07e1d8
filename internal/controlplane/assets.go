package controlplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

const envAssets = "KUBEBUILDER_ASSETS"

// Assets returns the absolute path of the directory with the etcd and kube-apiserver binaries: the value of the environment variable
// KUBEBUILDER_ASSETS if it is set, or else a bin/controlplane directory. Assets looks for the latter in the current directory, in the
// directory of this source file, and in all directories above them. If a binary is missing, the error explains how to build it.
func Assets() (string, error) {
	if dir := os.Getenv(envAssets); dir != "" {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("control plane: %s: %w", envAssets, err)
		}
		if err := checkBinaries(dir); err != nil {
			return "", fmt.Errorf("control plane: %s is set, but the directory is unusable: %w "+
				"(correct it, or unset it and run `make controlplane`)", envAssets, err)
		}
		return dir, nil
	}
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	// With -trimpath, the path of the source file is not absolute.
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	return findAssets(starts...)
}

// Exports returns shell commands that set up kubectl for a server: KUBECONFIG and, if kubectl is not in the PATH, a PATH with the directory
// of the one we built.
func Exports(kubeconfig string) []string {
	exports := []string{"export KUBECONFIG=" + kubeconfig}
	if _, err := exec.LookPath("kubectl"); err == nil {
		return exports
	}
	if dir, err := Assets(); err == nil && checkProgram(filepath.Join(dir, "kubectl")) == nil {
		exports = append(exports, `export PATH="$PATH":`+dir)
	}
	return exports
}

// findAssets looks for bin/controlplane in each start directory and in the directories above it.
func findAssets(starts ...string) (string, error) {
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			if assets := filepath.Join(dir, "bin", "controlplane"); checkBinaries(assets) == nil {
				return assets, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", fmt.Errorf("control plane: no bin/controlplane with etcd and kube-apiserver in or above any of %q: "+
		"run `make controlplane` in the root of the repository, "+
		"or set %s to a directory with both binaries", starts, envAssets)
}

func checkBinaries(dir string) error {
	var errs []error
	for _, name := range []string{"etcd", "kube-apiserver"} {
		errs = append(errs, checkProgram(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

func checkProgram(path string) error {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0) {
		err = fmt.Errorf("%s is not an executable file", path)
	}
	return err
}
