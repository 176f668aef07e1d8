package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// marks identify a license: its text contains all sentences of the first list and none of the second.
var marks = []struct {
	name     string
	has, not []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0, january 2004"}, nil},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "endorse or promote products"}, nil},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms"}, []string{"endorse or promote products"}},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy"}, nil},
	{"ISC", []string{"permission to use, copy, modify, and", "distribute this software for any purpose"}, nil},
	{"MPL-2.0", []string{"mozilla public license", "2.0"}, nil},
	{"AGPL", []string{"gnu affero general public license", "terms and conditions"}, nil},
	{"LGPL", []string{"gnu lesser general public license", "terms and conditions"}, nil},
	{"GPL", []string{"gnu general public license", "terms and conditions"}, []string{"affero", "lesser general public license, as"}},
}

// licenses returns the licenses in the license files of a module. A module may have several, for example for copied code.
func (m module) licenses() (names []string, err error) {
	entries, err := os.ReadDir(m.folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry.IsDir() || !isLicense(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		names = append(names, classify(string(text))...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func isLicense(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "licen") || strings.HasPrefix(name, "copying")
}

// classify returns the licenses in a text.
func classify(text string) (names []string) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(mark string) bool { return strings.Contains(text, mark) }
	for _, license := range marks {
		if !slices.ContainsFunc(license.has, func(mark string) bool { return !has(mark) }) && !slices.ContainsFunc(license.not, has) {
			names = append(names, license.name)
		}
	}
	return names
}
