package main

import (
	"io"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
	"github.com/kopf-runtime/kopf-runtime/hack/example/screen"
)

// Without input, the command ends when the operator ends.
func TestFollow_EndsWithTheOperator(t *testing.T) {
	for name, input := range map[string]io.Reader{"no input": nil, "empty input": strings.NewReader("")} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			operator, err := program.Start("/bin/sh", []string{"-c", "exit 3"})
			g.Expect(err).NotTo(HaveOccurred())
			s := &stage{choice: choice{input: input}, operator: operator, screen: screen.Plain(gbytes.NewBuffer())}
			g.Expect(s.follow(t.Context())).To(MatchError(errEnded))
		})
	}
}
