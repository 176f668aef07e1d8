package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestClassify(t *testing.T) {
	g := NewWithT(t)
	for text, names := range map[string][]string{
		"Apache License\n  Version 2.0, January 2004":                                                    {"Apache-2.0"},
		"Redistribution and use in source and\nbinary forms, ... nor ... to endorse or promote products": {"BSD-3-Clause"},
		"Redistribution and use in source and binary forms, with or without":                             {"BSD-2-Clause"},
		"Permission is hereby granted, free of charge, to any person\nobtaining a copy":                  {"MIT"},
		"Permission to use, copy, modify, and/or distribute this software for any purpose":               {"ISC"},
		"GNU GENERAL PUBLIC LICENSE ... TERMS AND CONDITIONS":                                            {"GPL"},
		"GNU AFFERO GENERAL PUBLIC LICENSE ... TERMS AND CONDITIONS":                                     {"AGPL"},
		"Mozilla Public License Version 2.0":                                                             {"MPL-2.0"},
		"You may do what I like":                                                                         nil,
	} {
		g.Expect(classify(text)).To(Equal(names), text)
	}
}

func TestLicenses_ReadsLicenseFilesOnly(t *testing.T) {
	g := NewWithT(t)
	g.Expect(module{folder: filepath.Join("..", "..")}.licenses()).To(Equal([]string{"Apache-2.0"}))
	folder := t.TempDir()
	g.Expect(module{folder: folder}.licenses()).To(BeEmpty())
	g.Expect(os.WriteFile(filepath.Join(folder, "README"), []byte("Mozilla Public License 2.0"), 0o600)).To(Succeed())
	g.Expect(module{folder: folder}.licenses()).To(BeEmpty(), "a README is not a license file")
	g.Expect(os.WriteFile(filepath.Join(folder, "LICENSE.md"), []byte("Mozilla Public License 2.0"), 0o600)).To(Succeed())
	g.Expect(module{folder: folder}.licenses()).To(Equal([]string{"MPL-2.0"}))
}

// A permissive license does not hide a disallowed one.
func TestLicenses_SeveralFiles(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	for name, text := range map[string]string{"LICENSE": "Apache License Version 2.0, January 2004", "LICENSE.other": "GNU GENERAL PUBLIC LICENSE ... TERMS AND CONDITIONS"} {
		g.Expect(os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600)).To(Succeed())
	}
	found, err := module{folder: folder}.licenses()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notAllowed(found)).To(Equal([]string{"GPL"}))
	g.Expect(notAllowed([]string{"Apache-2.0", "MIT"})).To(BeEmpty())
}
