package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// make and the shells pass the quoted arguments to the operator unchanged.
func TestQuoted_PreservesArguments(t *testing.T) {
	g := NewWithT(t)
	g.Expect(quoted([]string{"-backup=0 30 3 * * *"})).To(Equal(`"'-backup=0 30 3 * * *'"`))
	args := []string{"-dev", "-backup=0 30 3 * * *", "", "it's", `a "b" \ c`, "$HOME `pwd` #;&|", "ä"}
	file := filepath.Join(t.TempDir(), "Makefile")
	g.Expect(exec.CommandContext(t.Context(), "sh", "-c", `printf 'all:\n\t@printf "%%s\\n" $(ARGS)\n' > "$0"`, file).Run()).To(Succeed())
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "make -s -f "+file+" ARGS="+quoted(args)).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Expect(string(out)).To(Equal(strings.Join(args, "\n") + "\n"))
}

func TestSecondInstance_UsesOtherPorts(t *testing.T) {
	for name, flags := range map[string]string{
		"01-minimal": `$`, "12-embedded": ` ARGS="-listen=\S+:\d+"$`, "17-admission": ` ARGS="-port=\d+"$`,
		"13-hooks":       ` ARGS="-metrics-bind-address=0 -health-probe-bind-address=0"$`,
		"kubebuilder":    ` ARGS="-metrics-bind-address=0 -health-probe-bind-address=0"$`,
		"99-all-at-once": ` ARGS="-metrics-bind-address=0 -health-probe-bind-address=0 -port=\d+"$`,
	} {
		g := &stage{choice: choice{name: name}, access: "/tmp/file"}
		command, err := g.secondInstance()
		if err != nil {
			t.Fatal(err)
		}
		NewWithT(t).Expect(command).To(MatchRegexp("^make example NAME=" + name + " CLUSTER=kubeconfig KUBECONFIG=/tmp/file" + flags))
	}
}
