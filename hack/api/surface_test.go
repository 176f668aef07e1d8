package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestSurface(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(folder, "a.go"), []byte(`// Package a is for a test.
package a

// Limit is documented.
const (
	Limit  = 10 // trailing
	hidden = 1
)

var Default, other int

type Mode int

const (
	First Mode = iota
	second
	Third
)

// T has an unexported field.
type T[V any] struct {
	Name  string `+"`json:\"name\"`"+`
	Size  int `+"`json:\"size,omitempty\"`"+`
	small int
	V
	Inline `+"`json:\",inline\"`"+`
}

type Inline struct{}

type I interface {
	Do(x int) error
	undo()
}

type A = map[string]T[int]

func New[V any](
	v V, // a declaration on two lines
) *T[V] { return nil }

func (t *T[V]) Do(x int) error { return nil }
func (t *T[V]) undo() {}
func helper() {}
`), 0o600)).To(Succeed())
	lines, err := surface(folder, []string{"a.go"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lines).To(Equal([]string{
		"const First Mode = iota (number 0)",
		"const Limit = 10",
		"const Third (number 2)",
		"func (t *T[V]) Do(x int) error",
		"func New[V any]( v V, ) *T[V]",
		"type A = map[string]T[int]",
		"type I interface",
		"type I interface, Do func(x int) error",
		"type Inline struct",
		"type Mode int",
		"type T struct, Name string `json:\"name\"`",
		"type T struct, Size int `json:\"size,omitempty\"`",
		"type T struct, embeds Inline `json:\",inline\"`",
		"type T struct, embeds V",
		"type T[V any] struct",
		"var Default int",
	}))
}

func TestCompare(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "api.txt")
	g.Expect(os.WriteFile(file, []byte("a: func One()\na: func Two()\n"), 0o600)).To(Succeed())
	g.Expect(compare(file, "a: func One()\na: func Two()\n")).To(Succeed())
	g.Expect(compare(file, "a: func One()\na: func Three()\n")).To(MatchError(ContainSubstring("1 lines removed, 1 added")))
	g.Expect(compare(file, "a: func Two()\na: func One()\n")).NotTo(Succeed(), "compare must detect another order of the lines")
}
