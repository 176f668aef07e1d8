package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A picture is a parsed source.
type picture struct {
	boxes  []box
	arrows []arrow
}

type box struct {
	name              string
	column, row, wide int
	store             bool
	texts             []string // title, then further lines
}

type arrow struct {
	from, to box
	label    string
}

// parse parses a source. Errors start with the line number.
func parse(text string) (p picture, err error) {
	for n, line := range strings.Split(text, "\n") {
		words, err := split(line)
		if err == nil && len(words) > 0 {
			err = p.add(words)
		}
		if err != nil {
			return p, fmt.Errorf("%d: %w", n+1, err)
		}
	}
	return p, nil
}

func (p *picture) add(words []string) error {
	switch words[0] {
	case "box", "store":
		return p.addBox(words)
	case "arrow":
		return p.addArrow(words[1:])
	}
	return fmt.Errorf("unknown item %q: use box, store or arrow", words[0])
}

func (p *picture) addBox(words []string) error {
	if len(words) < 6 {
		return errors.New("a box needs a name, a column, a row, a width and a title")
	}
	b := box{name: words[1], store: words[0] == "store", texts: words[5:]}
	for i, into := range []*int{&b.column, &b.row, &b.wide} {
		n, err := strconv.Atoi(words[2+i])
		if err != nil || n < 0 {
			return fmt.Errorf("%q must be a number of columns or rows", words[2+i])
		}
		*into = n
	}
	if b.wide == 0 {
		return errors.New("the width of a box must be positive")
	}
	for _, text := range b.texts {
		if len(text)*letterWidth > b.width() {
			return fmt.Errorf("%q is too long for its box", text)
		}
	}
	if _, err := p.find(b.name); err == nil {
		return fmt.Errorf("duplicate box %q", b.name)
	}
	p.boxes = append(p.boxes, b)
	return nil
}

func (p *picture) addArrow(words []string) error {
	if len(words) < 2 || len(words) > 3 {
		return errors.New("an arrow needs two boxes, and may have a label")
	}
	from, err := p.find(words[0])
	if err != nil {
		return err
	}
	to, err := p.find(words[1])
	if err != nil {
		return err
	}
	a := arrow{from: from, to: to}
	if len(words) == 3 {
		a.label = words[2]
	}
	if _, _, ok := a.ends(); !ok {
		return fmt.Errorf("%s and %s are not neighbours", from.name, to.name)
	}
	p.arrows = append(p.arrows, a)
	return nil
}

func (p *picture) find(name string) (box, error) {
	for _, b := range p.boxes {
		if b.name == name {
			return b, nil
		}
	}
	return box{}, fmt.Errorf("no box %q in an earlier line", name)
}

// split splits a line into words and quoted texts. A line that starts with # is a comment.
func split(line string) (words []string, err error) {
	rest := strings.TrimSpace(line)
	if strings.HasPrefix(rest, "#") {
		return nil, nil
	}
	for rest != "" {
		word, after, _ := strings.Cut(rest, " ")
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			if word, after, ok = strings.Cut(quoted, `"`); !ok {
				return nil, errors.New(`missing " at the end of a text`)
			}
		}
		words, rest = append(words, word), strings.TrimSpace(after)
	}
	return words, nil
}
