//go:build linux || darwin

package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestReaper_StopKillsOnlyServersOfItsDirectory(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	reaper, err := NewReaper(dir)
	g.Expect(err).NotTo(HaveOccurred())

	// This process has the id of an ended server.
	other := exec.Command("cat")
	stdin, err := other.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(other.Start()).To(Succeed())
	g.Expect(os.WriteFile(dir+"/pids", fmt.Appendln(nil, other.Process.Pid), 0o600)).To(Succeed())

	reaper.Stop()
	g.Expect(dir).NotTo(BeADirectory())
	g.Expect(stdin.Close()).To(Succeed())
	g.Expect(other.Wait()).To(Succeed(), "the reaper must not kill a process of another program")
}

func TestReaper_StartsOnlyUnderReaper(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir() + "/it's here"
	g.Expect(os.Mkdir(dir, 0o700)).To(Succeed())
	reaper, err := NewReaper(dir)
	g.Expect(err).NotTo(HaveOccurred())
	echo, err := exec.LookPath("echo")
	g.Expect(err).NotTo(HaveOccurred())
	program, err := reaper.WrapCommand(echo)
	g.Expect(err).NotTo(HaveOccurred())

	cmd := exec.Command(program, "two  words", "'")
	out, err := cmd.Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(Equal("two  words '\n"))
	g.Expect(os.ReadFile(dir + "/pids")).To(BeEquivalentTo(fmt.Sprintln(cmd.Process.Pid)))
	g.Expect(exec.Command(program, "--help").Run()).To(Succeed())
	g.Expect(os.ReadFile(dir + "/pids")).To(BeEquivalentTo(fmt.Sprintln(cmd.Process.Pid)))

	g.Expect(os.Remove(dir + "/open")).To(Succeed()) // the reaper also removes this file first
	out, err = exec.Command(program, "late").Output()
	g.Expect(err).To(HaveOccurred())
	g.Expect(strings.TrimSpace(string(out))).To(BeEmpty())
	reaper.Stop()
	g.Expect(dir).NotTo(BeADirectory())
}
