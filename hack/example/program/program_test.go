//go:build unix

package program_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
)

// With this variable, the test binary starts the named program and waits to be killed.
const childEnv = "KOPF_PROGRAM_TEST_CHILD"

func TestMain(m *testing.M) {
	if file := os.Getenv(childEnv); file != "" {
		p, err := program.Start(file, nil)
		if err != nil {
			panic(err)
		}
		<-p.Done()
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// script returns a program that runs until it is stopped.
func script(t *testing.T, onTerm string) string {
	file := filepath.Join(t.TempDir(), "program")
	text := "#!/bin/sh\ntrap '" + onTerm + "' TERM\n" +
		"[ ! -p \"$0.alive\" ] || exec 3>\"$0.alive\"\n" +
		"echo ready $WHAT $1\nwhile :; do sleep 0.05; done\n"
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestStop(t *testing.T) {
	for _, c := range []struct {
		name, onTerm string
		ends         OmegaMatcher
	}{
		{"program exits without an error", "echo bye; exit 0", Succeed()},
		{"program exits with an error", "exit 3", MatchError(ContainSubstring("exit status 3"))},
		{"program ignores SIGTERM", "", MatchError(ContainSubstring("did not end within 500ms of SIGTERM"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			p, err := program.Start(script(t, c.onTerm), []string{"on"}, "WHAT=steady")
			g.Expect(err).NotTo(HaveOccurred())
			g.Eventually(p.Lines).WithTimeout(10 * time.Second).Should(Equal([]string{"ready steady on"}))
			g.Expect(p.Done()).NotTo(BeClosed())
			limit := time.Minute
			if c.onTerm == "" {
				limit = 500 * time.Millisecond
			}
			g.Expect(p.Stop(limit)).To(c.ends)
			g.Expect(p.Done()).To(BeClosed())
			if c.name == "program exits without an error" {
				g.Expect(p.Lines()).To(Equal([]string{"ready steady on", "bye"}))
				g.Expect(p.Stop(time.Second)).To(Succeed(), "a second call of Stop must succeed")
			}
		})
	}
}

func TestProgram_EndsWithItsParent(t *testing.T) {
	g := NewWithT(t)
	file := script(t, "")
	g.Expect(syscall.Mkfifo(file+".alive", 0o600)).To(Succeed())
	starter := exec.Command(os.Args[0])
	starter.Env = append(os.Environ(), childEnv+"="+file)
	g.Expect(starter.Start()).To(Succeed())
	alive, err := os.Open(file + ".alive") // Open blocks until the program opens the other end
	g.Expect(err).NotTo(HaveOccurred())
	defer alive.Close()

	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(alive)
		ended <- err
	}()
	g.Consistently(ended).ShouldNot(Receive())
	g.Expect(starter.Process.Kill()).To(Succeed())
	_ = starter.Wait()
	g.Eventually(ended).WithTimeout(10 * time.Second).Should(Receive(BeNil()))
}

func TestBuild_ErrorContainsTheOutput(t *testing.T) {
	g := NewWithT(t)
	err := program.Build(t.Context(), "no-such", filepath.Join(t.TempDir(), "x"))
	g.Expect(err).To(MatchError(ContainSubstring("no-such")))
}
