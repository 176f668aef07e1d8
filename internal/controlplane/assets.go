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

// Assets names the folder with the binaries of etcd and kube-apiserver: the one of the
// environment variable KUBEBUILDER_ASSETS if that is set, otherwise the bin/controlplane nearest
// above the current directory, otherwise the one nearest above this source file.
func Assets() (string, error) {
	if dir := os.Getenv(envAssets); dir != "" {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("control plane: %s: %w", envAssets, err)
		}
		if err := complete(dir); err != nil {
			return "", fmt.Errorf("control plane: %s is set, but of no use: %w "+
				"(correct it, or unset it and run `make controlplane`)", envAssets, err)
		}
		return dir, nil
	}
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	// With -trimpath the file has no absolute name, and nothing can be found from there.
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	return findAssets(starts...)
}

// Exports returns the commands for a shell in which kubectl is to find a server: the file for the access, and, if there is no kubectl on the
// PATH, the one that was built beside the server.
func Exports(kubeconfig string) []string {
	exports := []string{"export KUBECONFIG=" + kubeconfig}
	if _, err := exec.LookPath("kubectl"); err == nil {
		return exports
	}
	if dir, err := Assets(); err == nil && isProgram(filepath.Join(dir, "kubectl")) == nil {
		exports = append(exports, `export PATH="$PATH":`+dir)
	}
	return exports
}

// findAssets looks in every start folder and in all those above it.
func findAssets(starts ...string) (string, error) {
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			if assets := filepath.Join(dir, "bin", "controlplane"); complete(assets) == nil {
				return assets, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", fmt.Errorf("control plane: no bin/controlplane with etcd and kube-apiserver in or above any of %q: "+
		"run `make controlplane` in the root of the repository, "+
		"or set %s to a folder with both binaries", starts, envAssets)
}

// complete reports what is missing for the folder to be of use.
func complete(dir string) error {
	var errs []error
	for _, name := range []string{"etcd", "kube-apiserver"} {
		errs = append(errs, isProgram(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

func isProgram(path string) error {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0) {
		err = fmt.Errorf("%s is not a program", path)
	}
	return err
}
