package doctest

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestSteps_ReturnsAllBlocks(t *testing.T) {
	g := NewWithT(t)
	page := filepath.Join(t.TempDir(), "page.md")
	g.Expect(os.WriteFile(page, []byte("# A page\n\n`api/kind.go`:\n\n```go\npackage api\n```\n\nThen:\n\n"+
		"```sh\necho one   # a remark\n\necho 'two'\n```\n\n```\none\n```\n\n1. In a list:\n   ```sh\n   echo three\n   ```\n"), 0o600)).To(Succeed())
	steps, err := Steps(page)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(steps).To(HaveLen(4))
	g.Expect(steps[0]).To(Equal(Step{File: "api/kind.go", Language: "go", Text: "package api\n"}))
	g.Expect(steps[0].Commands()).To(BeEmpty())
	g.Expect(steps[1].Commands()).To(Equal([]string{"echo one", "echo 'two'"}))
	g.Expect(steps[2]).To(Equal(Step{Text: "one\n"}))
	g.Expect(steps[3].Commands()).To(Equal([]string{"echo three"}))

	_, err = Steps(filepath.Join(t.TempDir(), "none.md"))
	g.Expect(err).To(MatchError(os.ErrNotExist))
}

func TestTerminal_RunsCommands(t *testing.T) {
	g := NewWithT(t)
	programs, folder := t.TempDir(), t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(programs, "where"), []byte("#!/bin/sh\necho \"$KUBECONFIG in $(pwd)\"\n"), 0o700)).To(Succeed())
	terminal := Terminal{Folder: folder, Kubeconfig: "/there/kubeconfig", Programs: []string{programs}}
	g.Expect(terminal.Type(t.Context(), "where")).To(Equal("/there/kubeconfig in " + folder + "\n"))

	out, err := terminal.Type(t.Context(), "echo alas; echo why >&2; exit 3")
	g.Expect(out).To(Equal("alas\nwhy\n"))
	g.Expect(err).To(MatchError(And(ContainSubstring("exit 3"), ContainSubstring("why"))))
	_, err = terminal.Type(t.Context(), "no-such-program")
	g.Expect(err).To(MatchError(ContainSubstring("no-such-program")))
}
