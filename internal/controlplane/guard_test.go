//go:build linux || darwin

package controlplane

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
)

func TestGuard(t *testing.T) {
	for name, test := range map[string]struct {
		serving bool // whether the test waits for the complete start
		end     func(cmd *exec.Cmd, stdin io.Closer)
	}{
		"after SIGKILL": {true, func(cmd *exec.Cmd, _ io.Closer) {
			_ = cmd.Process.Kill()
		}},
		"after SIGKILL during the start": {false, func(cmd *exec.Cmd, _ io.Closer) {
			_ = cmd.Process.Kill()
		}},
		"after Ctrl-C": {true, func(cmd *exec.Cmd, _ io.Closer) {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // a terminal also sends the signal to the process group
		}},
		"after an exit without Stop": {true, func(_ *exec.Cmd, stdin io.Closer) {
			_ = stdin.Close()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tmp := needServers(t)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), envChild+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			stdin, err := cmd.StdinPipe()
			g.Expect(err).NotTo(HaveOccurred())
			stdout, err := cmd.StdoutPipe()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(cmd.Start()).To(Succeed())
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})

			if test.serving {
				line, err := bufio.NewReader(stdout).ReadString('\n')
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(line).To(HavePrefix("serving https://"))
				g.Expect(processes(t, tmp)).To(HaveLen(3), "etcd, kube-apiserver and the reaper")
			} else {
				g.Eventually(func() map[int]string { return processes(t, tmp) }, patience, interval).
					Should(ContainElement(ContainSubstring("--data-dir=")))
			}
			test.end(cmd, stdin)
			g.Eventually(func() map[int]string { return processes(t, tmp) }, patience, interval).Should(BeEmpty())
			g.Eventually(func() []string { return entries(t, tmp) }, patience, interval).Should(BeEmpty())
		})
	}
}

func TestGuard_StopsControllers(t *testing.T) {
	g := NewWithT(t)
	tmp := needControllers(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+withControllers)
	stdin, err := cmd.StdinPipe() // an open pipe keeps the process running
	g.Expect(err).NotTo(HaveOccurred())
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cmd.Start()).To(Succeed())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(line).To(HavePrefix("serving https://"))
	g.Expect(processes(t, tmp)).To(HaveLen(4), "etcd, kube-apiserver, kube-controller-manager and the reaper")

	g.Expect(cmd.Process.Kill()).To(Succeed())
	_ = cmd.Wait()
	g.Eventually(func() map[int]string { return processes(t, tmp) }, patience, interval).Should(BeEmpty())
	g.Eventually(func() []string { return entries(t, tmp) }, patience, interval).Should(BeEmpty())
}
