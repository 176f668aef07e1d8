package main

import (
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"
)

// make passes its variables to the command. It builds no control plane for invalid arguments.
func TestMake_PassesVariables(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make")
	}
	for name, c := range map[string]struct {
		args []string
		fine bool
		says string
	}{
		"missing name":            {nil, true, "06-peering       two operators"},
		"unknown example":         {[]string{"NAME=nope"}, false, `unknown example "nope"`},
		"unknown cluster":         {[]string{"NAME=01-minimal", "CLUSTER=prod"}, false, `unknown cluster "prod"`},
		"CONTEXT without CLUSTER": {[]string{"NAME=01-minimal", "CONTEXT=prod"}, false, "needs CLUSTER=kubeconfig"},
		"missing kubeconfig":      {[]string{"NAME=08-events", "CLUSTER=kubeconfig", "KUBECONFIG=/nothing"}, false, `no context ""`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, err := exec.CommandContext(t.Context(), "make", append([]string{"-C", "../..", "--no-print-directory", "example"}, c.args...)...).CombinedOutput()
			if c.fine {
				g.Expect(err).NotTo(HaveOccurred(), string(out))
			} else {
				g.Expect(err).To(HaveOccurred(), string(out))
			}
			g.Expect(string(out)).To(And(ContainSubstring(c.says), Not(ContainSubstring("control plane: "))))
		})
	}
}
