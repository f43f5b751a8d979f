//! ISA-L's P, P+Q and erasure code, from the system's shared library, loaded at run time.

use std::ffi::{CStr, c_int, c_void};

type Generate = unsafe extern "C" fn(c_int, c_int, *const *mut c_void) -> c_int;
type InitTables = unsafe extern "C" fn(c_int, c_int, *const u8, *mut u8);
type Encode = unsafe extern "C" fn(c_int, c_int, c_int, *const u8, *const *mut u8, *const *mut u8);

/// `xor_gen` and `pq_gen` of one instruction set, or those that ISA-L selects for this processor.
#[derive(Clone, Copy)]
pub struct Forms {
    xor_gen: Generate,
    pq_gen: Generate,
}

pub struct Isal {
    /// The functions that ISA-L selects for this processor.
    pub best: Forms,
    /// Functions by the name of our kernel with the same instructions; ISA-L has none with GFNI.
    pub forms: Vec<(&'static str, Forms)>,
    init_tables: InitTables,
    encode: Encode,
}

impl Isal {
    /// Loads the library, or returns why it cannot.
    pub fn load() -> Result<Isal, String> {
        // SAFETY: the name is a C string; loading the library runs nothing but its initialisers.
        let library = unsafe { libc::dlopen(c"libisal.so.2".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err("libisal.so.2 can't be loaded (Debian: apt-get install libisal2)".into());
        }
        let find = |name: &CStr| {
            // SAFETY: the library is loaded and never unloaded; the name is a C string.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            if symbol.is_null() { Err(format!("libisal.so.2 has no {name:?}")) } else { Ok(symbol) }
        };
        let forms = |xor_gen: &CStr, pq_gen: &CStr| {
            let (xor_gen, pq_gen) = (find(xor_gen)?, find(pq_gen)?);
            // SAFETY: the types are those of isa-l/raid.h.
            let type_of = |symbol| unsafe { std::mem::transmute::<*mut c_void, Generate>(symbol) };
            Ok::<_, String>(Forms { xor_gen: type_of(xor_gen), pq_gen: type_of(pq_gen) })
        };
        // SAFETY: the types are those of isa-l/erasure_code.h.
        unsafe {
            Ok(Isal {
                best: forms(c"xor_gen", c"pq_gen")?,
                forms: vec![
                    ("gfni", forms(c"xor_gen_avx512", c"pq_gen_avx512")?),
                    ("avx512", forms(c"xor_gen_avx512", c"pq_gen_avx512")?),
                    ("avx2", forms(c"xor_gen_avx", c"pq_gen_avx2")?),
                    ("ssse3", forms(c"xor_gen_sse", c"pq_gen_sse")?),
                ],
                init_tables: std::mem::transmute::<*mut c_void, InitTables>(find(
                    c"ec_init_tables",
                )?),
                encode: std::mem::transmute::<*mut c_void, Encode>(find(c"ec_encode_data")?),
            })
        }
    }

    /// Pointers to sources, then results, as the library expects them.
    pub fn pointers(&self, sources: &[&[u8]], results: &[*mut u8]) -> Vec<*mut u8> {
        sources
            .iter()
            .map(|source| source.as_ptr().cast_mut())
            .chain(results.iter().copied())
            .collect()
    }

    /// The tables of P and Q for `width` sources.
    pub fn tables(&self, width: usize) -> Vec<u8> {
        let p = std::iter::repeat_n(1, width);
        let q = (0..width).map(parity::field::power);
        let matrix: Vec<u8> = p.chain(q).collect();
        let mut tables = vec![0; 32 * 2 * width];
        // SAFETY: the matrix has 2 rows of `width`, the tables 32 bytes for each element.
        unsafe { (self.init_tables)(width as c_int, 2, matrix.as_ptr(), tables.as_mut_ptr()) };
        tables
    }

    pub fn encode(&self, len: usize, pointers: &[*mut u8], tables: &[u8]) {
        let width = pointers.len() - 2;
        let (data, results) = pointers.split_at(width);
        // SAFETY: each pointer is to `len` bytes; the tables are those of this width.
        unsafe {
            (self.encode)(
                len as c_int,
                width as c_int,
                2,
                tables.as_ptr(),
                data.as_ptr(),
                results.as_ptr(),
            );
        }
    }
}

impl Forms {
    pub fn xor_gen(self, len: usize, pointers: &[*mut u8]) {
        Forms::generate(self.xor_gen, len, pointers);
    }

    pub fn pq_gen(self, len: usize, pointers: &[*mut u8]) {
        Forms::generate(self.pq_gen, len, pointers);
    }

    fn generate(function: Generate, len: usize, pointers: &[*mut u8]) {
        // SAFETY: each pointer is to `len` bytes on a page boundary; the last ones are the results.
        let code =
            unsafe { function(pointers.len() as c_int, len as c_int, pointers.as_ptr().cast()) };
        assert_eq!(code, 0, "ISA-L takes the call");
    }
}
