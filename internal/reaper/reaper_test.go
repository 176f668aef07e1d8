//go:build linux || darwin

package reaper

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestGuardSparesStrangers(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	guard, err := New(dir)
	g.Expect(err).NotTo(HaveOccurred())

	// A process that got the number of a server which is gone.
	stranger := exec.Command("cat")
	stdin, err := stranger.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stranger.Start()).To(Succeed())
	g.Expect(os.WriteFile(dir+"/pids", fmt.Appendln(nil, stranger.Process.Pid), 0o600)).To(Succeed())

	guard.Stop()
	g.Expect(dir).NotTo(BeADirectory())
	g.Expect(stdin.Close()).To(Succeed())
	g.Expect(stranger.Wait()).To(Succeed(), "it ended by itself")
}

func TestServersStartOnlyUnderAGuard(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir() + "/it's here"
	g.Expect(os.Mkdir(dir, 0o700)).To(Succeed())
	guard, err := New(dir)
	g.Expect(err).NotTo(HaveOccurred())
	echo, err := exec.LookPath("echo")
	g.Expect(err).NotTo(HaveOccurred())
	program, err := guard.WrapCommand(echo)
	g.Expect(err).NotTo(HaveOccurred())

	cmd := exec.Command(program, "two  words", "'")
	out, err := cmd.Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(Equal("two  words '\n"))
	g.Expect(os.ReadFile(dir + "/pids")).To(BeEquivalentTo(fmt.Sprintln(cmd.Process.Pid)))
	g.Expect(exec.Command(program, "--help").Run()).To(Succeed())
	g.Expect(os.ReadFile(dir + "/pids")).To(BeEquivalentTo(fmt.Sprintln(cmd.Process.Pid)))

	g.Expect(os.Remove(dir + "/open")).To(Succeed()) // as the guard does first
	out, err = exec.Command(program, "late").Output()
	g.Expect(err).To(HaveOccurred())
	g.Expect(strings.TrimSpace(string(out))).To(BeEmpty())
	guard.Stop()
	g.Expect(dir).NotTo(BeADirectory())
}
