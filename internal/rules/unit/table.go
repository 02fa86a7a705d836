// SPDX-License-Identifier: Apache-2.0

package unit

import "strings"

// The unit and prefix codes below come from the Unified Code for Units of
// Measure (UCUM), version 2.2 of 2024-06-17 (ucum-essence.xml), copyright
// 1999-2024 Regenstrief Institute, Inc., and are subject to the UCUM licence,
// https://ucum.org/license. Only the case-sensitive code and the metric flag
// of each unit were taken.

// prefixes holds the prefix codes. UCUM 2.2 knows the binary ones up to Ti and
// the decimal ones from y to Y.
var prefixes = map[string]struct{}{
	"Ki": {}, "Mi": {}, "Gi": {}, "Ti": {},
	"Y": {}, "Z": {}, "E": {}, "P": {}, "T": {}, "G": {}, "M": {}, "k": {}, "h": {}, "da": {},
	"d": {}, "c": {}, "m": {}, "u": {}, "n": {}, "p": {}, "f": {}, "a": {}, "z": {}, "y": {},
}

// groups are the codes of all units, separated by spaces. Metric units can carry a prefix.
var groups = []struct{ metric, other string }{
	// Base units.
	{metric: "m s g rad K C cd"},
	// Dimensionless units.
	{other: "10* 10^ [pi] % [ppth] [ppm] [ppb] [pptr]"},
	// SI units.
	{metric: "mol sr Hz N Pa J W A V F Ohm S Wb Cel T H lm lx Bq Gy Sv"},
	// Other units from ISO 1000, ISO 2955 and ANSI X3.50.
	{metric: "l L ar t bar u pc eV", other: "deg gon ' '' min h d a_t a_j a_g a wk mo_s mo_j mo_g mo AU"},
	// Natural units.
	{metric: "[c] [h] [k] [eps_0] [mu_0] [e] [m_e] [m_p] [G] [g] [ly] gf", other: "atm [lbf_av]"},
	// CGS units.
	{metric: "Ky Gal dyn erg P Bi St Mx G Oe Gb sb Lmb ph Ci R RAD REM"},
	// International customary units.
	{
		other: "[in_i] [ft_i] [yd_i] [mi_i] [fth_i] [nmi_i] [kn_i] [sin_i] [sft_i] [syd_i] [cin_i] [cft_i] [cyd_i] " +
			"[bf_i] [cr_i] [mil_i] [cml_i] [hd_i]",
	},
	// Older U.S. "survey" lengths.
	{
		other: "[ft_us] [yd_us] [in_us] [rd_us] [ch_us] [lk_us] [rch_us] [rlk_us] [fth_us] [fur_us] [mi_us] [acr_us] " +
			"[srd_us] [smi_us] [sct] [twp] [mil_us]",
	},
	// British Imperial lengths.
	{other: "[in_br] [ft_br] [rd_br] [ch_br] [lk_br] [fth_br] [pc_br] [yd_br] [mi_br] [nmi_br] [kn_br] [acr_br]"},
	// U.S. volumes, including dry measures.
	{
		other: "[gal_us] [bbl_us] [qt_us] [pt_us] [gil_us] [foz_us] [fdr_us] [min_us] [crd_us] [bu_us] [gal_wi] " +
			"[pk_us] [dqt_us] [dpt_us] [tbs_us] [tsp_us] [cup_us] [foz_m] [cup_m] [tsp_m] [tbs_m]",
	},
	// British Imperial volumes.
	{other: "[gal_br] [pk_br] [bu_br] [qt_br] [pt_br] [gil_br] [foz_br] [fdr_br] [min_br]"},
	// Avoirdupois weights.
	{other: "[gr] [lb_av] [oz_av] [dr_av] [scwt_av] [lcwt_av] [ston_av] [lton_av] [stone_av]"},
	// Troy weights.
	{other: "[pwt_tr] [oz_tr] [lb_tr]"},
	// Apothecaries' weights.
	{other: "[sc_ap] [dr_ap] [oz_ap] [lb_ap] [oz_m]"},
	// Typesetter's lengths.
	{other: "[lne] [pnt] [pca] [pnt_pr] [pca_pr] [pied] [pouce] [ligne] [didot] [cicero]"},
	// Heat, temperature and textile units.
	{
		metric: "cal_[15] cal_[20] cal_m cal_IT cal_th cal tex",
		other:  "[degF] [degR] [degRe] [Cal] [Btu_39] [Btu_59] [Btu_60] [Btu_m] [Btu_IT] [Btu_th] [Btu] [HP] [den]",
	},
	// Clinical medicine.
	{
		metric: "m[H2O] m[Hg]",
		other: "[in_i'H2O] [in_i'Hg] [PRU] [wood'U] [diop] [p'diop] %[slope] [mesh_i] [Ch] [drp] [hnsf'U] [MET] " +
			"[hp'_X] [hp'_C] [hp'_M] [hp'_Q] [hp_X] [hp_C] [hp_M] [hp_Q] [kp_X] [kp_C] [kp_M] [kp_Q]",
	},
	// Chemical and biochemical units.
	{
		metric: "eq osm g% kat U [iU] [IU]",
		other: "[pH] [S] [HPF] [LPF] [arb'U] [USP'U] [GPL'U] [MPL'U] [APL'U] [beth'U] [anti'Xa'U] [todd'U] [dye'U] " +
			"[smgy'U] [bdsk'U] [ka'U] [knk'U] [mclg'U] [tb'U] [CCID_50] [TCID_50] [EID_50] [PFU] [FFU] [CFU] [IR] " +
			"[BAU] [AU] [Amb'a'1'U] [PNU] [Lf] [D'ag'U] [FEU] [ELU] [EU]",
	},
	// Levels.
	{metric: "Np B B[SPL] B[V] B[mV] B[uV] B[10.nV] B[W] B[kW]"},
	// Miscellaneous units.
	{metric: "st mho", other: "Ao b att [psi] circ sph [car_m] [car_Au] [smoot] [m/s2/Hz^(1/2)] [NTU] [FNU]"},
	// Information technology.
	{metric: "bit By Bd", other: "bit_s"},
}

// atoms maps the code of every unit to whether the unit is metric.
var atoms = func() map[string]bool {
	all := map[string]bool{}
	for _, g := range groups {
		for code := range strings.FieldsSeq(g.metric) {
			all[code] = true
		}
		for code := range strings.FieldsSeq(g.other) {
			all[code] = false
		}
	}
	return all
}()
