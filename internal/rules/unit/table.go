// SPDX-License-Identifier: Apache-2.0

package unit

// The unit and prefix codes below are those of the Unified Code for Units of
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

// atoms maps the code of every unit to whether the unit is metric, which is
// what allows it to carry a prefix.
var atoms = map[string]bool{
	// Base units.
	"m": true, "s": true, "g": true, "rad": true, "K": true, "C": true, "cd": true,

	// Dimensionless units.
	"10*": false, "10^": false, "[pi]": false, "%": false, "[ppth]": false, "[ppm]": false, "[ppb]": false, "[pptr]": false,

	// SI units.
	"mol": true, "sr": true, "Hz": true, "N": true, "Pa": true, "J": true, "W": true, "A": true,
	"V": true, "F": true, "Ohm": true, "S": true, "Wb": true, "Cel": true, "T": true, "H": true,
	"lm": true, "lx": true, "Bq": true, "Gy": true, "Sv": true,

	// Other units from ISO 1000, ISO 2955 and ANSI X3.50.
	"deg": false, "gon": false, "'": false, "''": false, "l": true, "L": true, "ar": true, "min": false,
	"h": false, "d": false, "a_t": false, "a_j": false, "a_g": false, "a": false, "wk": false, "mo_s": false,
	"mo_j": false, "mo_g": false, "mo": false, "t": true, "bar": true, "u": true, "AU": false, "pc": true,
	"eV": true,

	// Natural units.
	"[c]": true, "[h]": true, "[k]": true, "[eps_0]": true, "[mu_0]": true, "[e]": true, "[m_e]": true, "[m_p]": true,
	"[G]": true, "[g]": true, "atm": false, "[ly]": true, "gf": true, "[lbf_av]": false,

	// CGS units.
	"Ky": true, "Gal": true, "dyn": true, "erg": true, "P": true, "Bi": true, "St": true, "Mx": true,
	"G": true, "Oe": true, "Gb": true, "sb": true, "Lmb": true, "ph": true, "Ci": true, "R": true,
	"RAD": true, "REM": true,

	// International customary units.
	"[in_i]": false, "[ft_i]": false, "[yd_i]": false, "[mi_i]": false, "[fth_i]": false, "[nmi_i]": false, "[kn_i]": false, "[sin_i]": false,
	"[sft_i]": false, "[syd_i]": false, "[cin_i]": false, "[cft_i]": false, "[cyd_i]": false, "[bf_i]": false, "[cr_i]": false, "[mil_i]": false,
	"[cml_i]": false, "[hd_i]": false,

	// Older U.S. "survey" lengths.
	"[ft_us]": false, "[yd_us]": false, "[in_us]": false, "[rd_us]": false, "[ch_us]": false, "[lk_us]": false, "[rch_us]": false, "[rlk_us]": false,
	"[fth_us]": false, "[fur_us]": false, "[mi_us]": false, "[acr_us]": false, "[srd_us]": false, "[smi_us]": false, "[sct]": false, "[twp]": false,
	"[mil_us]": false,

	// British Imperial lengths.
	"[in_br]": false, "[ft_br]": false, "[rd_br]": false, "[ch_br]": false, "[lk_br]": false, "[fth_br]": false, "[pc_br]": false, "[yd_br]": false,
	"[mi_br]": false, "[nmi_br]": false, "[kn_br]": false, "[acr_br]": false,

	// U.S. volumes, including dry measures.
	"[gal_us]": false, "[bbl_us]": false, "[qt_us]": false, "[pt_us]": false, "[gil_us]": false, "[foz_us]": false, "[fdr_us]": false, "[min_us]": false,
	"[crd_us]": false, "[bu_us]": false, "[gal_wi]": false, "[pk_us]": false, "[dqt_us]": false, "[dpt_us]": false, "[tbs_us]": false, "[tsp_us]": false,
	"[cup_us]": false, "[foz_m]": false, "[cup_m]": false, "[tsp_m]": false, "[tbs_m]": false,

	// British Imperial volumes.
	"[gal_br]": false, "[pk_br]": false, "[bu_br]": false, "[qt_br]": false, "[pt_br]": false, "[gil_br]": false, "[foz_br]": false, "[fdr_br]": false,
	"[min_br]": false,

	// Avoirdupois weights.
	"[gr]": false, "[lb_av]": false, "[oz_av]": false, "[dr_av]": false, "[scwt_av]": false, "[lcwt_av]": false, "[ston_av]": false, "[lton_av]": false,
	"[stone_av]": false,

	// Troy weights.
	"[pwt_tr]": false, "[oz_tr]": false, "[lb_tr]": false,

	// Apothecaries' weights.
	"[sc_ap]": false, "[dr_ap]": false, "[oz_ap]": false, "[lb_ap]": false, "[oz_m]": false,

	// Typesetter's lengths.
	"[lne]": false, "[pnt]": false, "[pca]": false, "[pnt_pr]": false, "[pca_pr]": false, "[pied]": false, "[pouce]": false, "[ligne]": false,
	"[didot]": false, "[cicero]": false,

	// Heat, temperature and textile units.
	"[degF]": false, "[degR]": false, "[degRe]": false, "cal_[15]": true, "cal_[20]": true, "cal_m": true, "cal_IT": true, "cal_th": true,
	"cal": true, "[Cal]": false, "[Btu_39]": false, "[Btu_59]": false, "[Btu_60]": false, "[Btu_m]": false, "[Btu_IT]": false, "[Btu_th]": false,
	"[Btu]": false, "[HP]": false, "tex": true, "[den]": false,

	// Clinical medicine.
	"m[H2O]": true, "m[Hg]": true, "[in_i'H2O]": false, "[in_i'Hg]": false, "[PRU]": false, "[wood'U]": false, "[diop]": false, "[p'diop]": false,
	"%[slope]": false, "[mesh_i]": false, "[Ch]": false, "[drp]": false, "[hnsf'U]": false, "[MET]": false, "[hp'_X]": false, "[hp'_C]": false,
	"[hp'_M]": false, "[hp'_Q]": false, "[hp_X]": false, "[hp_C]": false, "[hp_M]": false, "[hp_Q]": false, "[kp_X]": false, "[kp_C]": false,
	"[kp_M]": false, "[kp_Q]": false,

	// Chemical and biochemical units.
	"eq": true, "osm": true, "[pH]": false, "g%": true, "[S]": false, "[HPF]": false, "[LPF]": false, "kat": true,
	"U": true, "[iU]": true, "[IU]": true, "[arb'U]": false, "[USP'U]": false, "[GPL'U]": false, "[MPL'U]": false, "[APL'U]": false,
	"[beth'U]": false, "[anti'Xa'U]": false, "[todd'U]": false, "[dye'U]": false, "[smgy'U]": false, "[bdsk'U]": false, "[ka'U]": false, "[knk'U]": false,
	"[mclg'U]": false, "[tb'U]": false, "[CCID_50]": false, "[TCID_50]": false, "[EID_50]": false, "[PFU]": false, "[FFU]": false, "[CFU]": false,
	"[IR]": false, "[BAU]": false, "[AU]": false, "[Amb'a'1'U]": false, "[PNU]": false, "[Lf]": false, "[D'ag'U]": false, "[FEU]": false,
	"[ELU]": false, "[EU]": false,

	// Levels.
	"Np": true, "B": true, "B[SPL]": true, "B[V]": true, "B[mV]": true, "B[uV]": true, "B[10.nV]": true, "B[W]": true,
	"B[kW]": true,

	// Miscellaneous units.
	"st": true, "Ao": false, "b": false, "att": false, "mho": true, "[psi]": false, "circ": false, "sph": false,
	"[car_m]": false, "[car_Au]": false, "[smoot]": false, "[m/s2/Hz^(1/2)]": false, "[NTU]": false, "[FNU]": false,

	// Information technology.
	"bit_s": false, "bit": true, "By": true, "Bd": true,
}
