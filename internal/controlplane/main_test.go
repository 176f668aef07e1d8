package controlplane

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	patience = 30 * time.Second
	interval = 50 * time.Millisecond
)

// With this variable, the test binary starts a control plane and never stops it.
const (
	envChild        = "KOPF_CONTROLPLANE_TEST_CHILD"
	withControllers = "with controllers"
)

func child() {
	config := func() string {
		cp, err := Start(Options{Controllers: os.Getenv(envChild) == withControllers})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return cp.Config.Host
	}()
	runtime.GC() // the control plane must survive without references to it
	runtime.GC()
	fmt.Println("serving", config)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		child()
	}
	goleak.VerifyTestMain(m)
}

// needServers skips the test in short mode. It returns a new directory for temporary files.
func needServers(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real control plane")
	}
	if _, err := Assets(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir
}

// processes returns the command lines that contain a text.
func processes(t *testing.T, text string) map[int]string {
	t.Helper()
	found := map[int]string{}
	if files, _ := filepath.Glob("/proc/[0-9]*/cmdline"); len(files) > 0 {
		for _, file := range files {
			line, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(line), text) {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
		return found
	}
	out, err := exec.Command("ps", "-axww", "-o", "pid=,command=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		number, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pid, err := strconv.Atoi(number); err == nil && strings.Contains(command, text) {
			found[pid] = command
		}
	}
	return found
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}
